import { useId, useState } from 'preact/hooks';
import { html } from './html.js';
import { OPERATORS, VALUE_OPERATORS } from './lists.js';

/**
 * Fields for the short definition of an audience or trait. They change the item as it is written in the configuration.
 * Settings that have no field stay as they are.
 */

/** @typedef {Record<string, any>} Item */
/** @typedef {(next: any) => void} OnChange */

/** Kinds of conditions. @type {Record<string, string>} */
const KINDS = {
  performed: 'did',
  viewed: 'viewed the page',
  screen: 'viewed the screen',
  sequence: 'did in order',
  trait: 'has the trait',
  computed: 'has the computed value',
  inAudience: 'is in the audience',
  split: 'is in a share of people',
};
const ACTIVITY = ['performed', 'viewed', 'screen'];
/** The kinds of messages in the log. @type {Record<string, string>} */
const LOGGED = { performed: 'track', viewed: 'page', screen: 'screen' };
/** @type {Record<string, any>} */
const FRESH = {
  sequence: [{ performed: '' }, { performed: '', after: { atMost: '1 day' } }],
  split: { name: 'try', from: 0, to: 50 },
};
const COUNTS = { once: 'at least once', atLeast: 'at least', exactly: 'exactly', atMost: 'at most' };

/** @param {unknown} value */
const isMap = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** True if the fields show a definition whole enough to edit it. @param {Item} item */
export function isComposable({ when, value }) {
  if (value !== undefined) return isMap(value);
  if (!isMap(when)) return false;
  return rowsOf(when).every((row) => {
    const [name] = Object.keys(row.not ?? row);
    return name !== undefined && Object.hasOwn(KINDS, name);
  });
}

/** @param {Item} when @returns {Item[]} */
const rowsOf = (when) => (Array.isArray(when['all']) ? when['all'] : Array.isArray(when['any']) ? when['any'] : [when]);

/** @param {Item} item @param {string} name @param {any} value - undefined removes it */
function changed(item, name, value) {
  const { [name]: _, ...rest } = item;
  if (value === undefined || value === '') return rest;
  return Object.hasOwn(item, name) ? { ...item, [name]: value } : { ...rest, [name]: value };
}

/** A value as people type it: text, but for what JSON reads as something else. @param {string} text */
function typed(text) {
  try {
    const value = JSON.parse(text);
    return value === null ? text : value;
  } catch {
    return text;
  }
}

/** @param {unknown} value @returns {string} */
function textOf(value) {
  if (Array.isArray(value)) return value.map(textOf).join(', ');
  return typeof value === 'string' && typed(value) === value ? value : JSON.stringify(value ?? '');
}

/**
 * A text that keeps what was typed, whatever becomes of it.
 *
 * @param {{ title: string, value: string, onText: (text: string) => void, list?: readonly string[], hint?: string, wide?: boolean, type?: string }} props
 */
export function Field({ title, value, onText, list, hint, wide, type = 'text' }) {
  const [text, setText] = useState(value);
  const id = useId();
  return html`<label class=${wide ? 'search' : ''}>
      ${title}
      <input type=${type} value=${text} placeholder=${hint} list=${list ? id : undefined} autocomplete="off"
          spellcheck=${false} dir="auto" onInput=${(/** @type {any} */ { target }) => {
            setText(target.value);
            onText(target.value);
          }} />
    </label>
    ${list && html`<datalist id=${id}>${list.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`}`;
}

/** @param {{ title: string, value: string, options: Record<string, string>, onChoose: (value: string) => void }} props */
export function Choice({ title, value, options, onChoose }) {
  return html`<label>
    ${title}
    <select value=${value} onChange=${(/** @type {any} */ { target }) => onChoose(target.value)}>
      ${Object.entries(options).map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}
    </select>
  </label>`;
}

/** @param {readonly string[]} names */
const asOptions = (names) => Object.fromEntries(names.map((name) => [name, name]));

/**
 * A list whose entries can be added and removed.
 *
 * @param {{ title: string, rows: readonly any[], fresh: any, add: string, least?: number, most?: number, onChange: OnChange, children: (row: any, index: number, onRow: OnChange) => any }} props
 */
function Rows({ title, rows, fresh, add, least = 0, most = 50, onChange, children }) {
  // Fields keep their own text, so that they are made again if rows move.
  const [version, setVersion] = useState(0);
  const [latest] = useState({ rows });
  latest.rows = rows;
  /** @param {readonly any[]} next */
  const reshape = (next) => {
    setVersion(version + 1);
    onChange(next);
  };
  /** @param {number} index @param {any} event */
  const drop = (index, event) => {
    event.currentTarget.closest('.rows').querySelector(':scope > button').focus();
    reshape(rows.filter((_, place) => place !== index));
  };
  return html`<div class="rows">
    ${rows.map(
      (row, index) => html`<fieldset key=${`${version} ${index}`}>
        <legend>${title} ${index + 1}</legend>
        <div class="filters">
          ${children(row, index, (next) => onChange(latest.rows.map((each, place) => (place === index ? next : each))))}
          ${
            rows.length > least &&
            html`<button type="button" class="bare" aria-label=${`Remove ${title.toLowerCase()} ${index + 1}`}
                onClick=${(/** @type {any} */ event) => drop(index, event)}>
              Remove
            </button>`
          }
        </div>
      </fieldset>`,
    )}
    ${rows.length < most && html`<button type="button" onClick=${() => reshape([...rows, fresh])}>${add}</button>`}
  </div>`;
}

/** @typedef {{ events: readonly { kind: string, name: string, properties: readonly string[] }[], traits: readonly string[], computed: readonly { key: string, kind: string }[] }} Names */

/** @param {{ item: Item, names: Names, onChange: OnChange }} props */
export function Composer({ item, names, onChange }) {
  if (item['value'])
    return html`<${Value} value=${item['value']} names=${names}
        onChange=${(/** @type {Item} */ value) => onChange({ ...item, value })} />`;
  const when = item['when'] ?? { all: [] };
  const group = Array.isArray(when.any) ? 'any' : 'all';
  /** @param {string} name @param {readonly any[]} rows */
  const regroup = (name, rows) => onChange({ ...item, when: { [name]: rows } });
  return html`<${Choice} title="People for whom" value=${group}
        options=${{ all: 'all of these hold', any: 'any of these holds' }}
        onChoose=${(/** @type {string} */ name) => regroup(name, rowsOf(when))} />
    <${Rows} title="Condition" rows=${rowsOf(when)} fresh=${{ performed: '' }} add="Add a condition" least=${1}
        onChange=${(/** @type {any[]} */ rows) => regroup(group, rows)}>
      ${(/** @type {Item} */ row, /** @type {number} */ _index, /** @type {OnChange} */ onRow) => html`<${Condition} condition=${row} names=${names} onChange=${onRow} />`}
    <//>`;
}

/** @param {{ condition: Item, names: Names, onChange: OnChange }} props */
function Condition({ condition, names, onChange }) {
  const isNot = isMap(condition['not']);
  const own = isNot ? condition['not'] : condition;
  /** @param {Item} next */
  const change = (next) => onChange(isNot ? { not: next } : next);
  const kind = Object.keys(KINDS).find((name) => Object.hasOwn(own, name)) ?? 'performed';
  /** @param {string} name */
  const become = (name) => {
    if (ACTIVITY.includes(name) && ACTIVITY.includes(kind)) {
      const { [kind]: said, ...rest } = own;
      change({ [name]: said, ...rest });
    } else {
      const isTested = name === 'trait' || name === 'computed';
      change({ [name]: FRESH[name] ?? '', ...(isTested ? { exists: true } : {}) });
    }
  };
  /** @param {string} name @param {any} value */
  const set = (name, value) => change(changed(own, name, value));
  const of = { condition: own, names, onChange: change };
  const keys = (/** @type {string} */ only) =>
    names.computed.filter((each) => kind === 'computed' || each.kind === only).map(({ key }) => key);
  return html`<label class="inline">
      <input type="checkbox" checked=${isNot} onChange=${() => onChange(isNot ? own : { not: own })} />
      not
    </label>
    <${Choice} title="A person" value=${kind} options=${KINDS} onChoose=${become} />
    ${ACTIVITY.includes(kind) && html`<${Did} key=${kind} kind=${kind} ...${of} />`}
    ${kind === 'sequence' && html`<${Sequence} ...${of} />`}
    ${
      kind === 'trait' &&
      html`<${Field} key="trait" wide title="Trait" value=${own['trait']} list=${names.traits}
            onText=${(/** @type {string} */ text) => change({ ...own, trait: text })} />
        <${Tests} tests=${own} beside=${['trait']} onChange=${change} />`
    }
    ${
      kind === 'computed' &&
      html`<${Field} key="computed" wide title="Key" value=${own['computed']} list=${keys('')}
            onText=${(/** @type {string} */ text) => change({ ...own, computed: text })} />
        <${Tests} tests=${own} beside=${['computed', 'column']} onChange=${change} />`
    }
    ${
      kind === 'inAudience' &&
      html`<${Field} key="inAudience" wide title="Key" value=${own['inAudience']} list=${keys('audience')}
          onText=${(/** @type {string} */ text) => change({ ...own, inAudience: text })} />`
    }
    ${
      kind === 'split' &&
      Object.keys(FRESH['split']).map(
        (name) =>
          html`<${Field} key=${name} title=${name === 'name' ? 'Name of the split' : `${name} %`}
              value=${textOf(own['split'][name])}
              onText=${(/** @type {string} */ text) => set('split', { ...own['split'], [name]: name === 'name' ? text : typed(text) })} />`,
      )
    }
    <${Others} of=${own}
        shown=${[kind, 'within', 'where', 'atLeast', 'atMost', 'exactly', 'firstTime', 'column', ...Object.keys(OPERATORS)]} />`;
}

/** Settings that have no field here. @param {{ of: Item, shown: readonly string[] }} props */
function Others({ of, shown }) {
  const rest = Object.entries(of).filter(([name]) => !shown.includes(name));
  return rest.length > 0 && html`<code>${JSON.stringify(Object.fromEntries(rest))}</code>`;
}

/** @param {{ kind: string, said: any, names: Names, onText: (text: string) => void }} props */
function Named({ kind, said, names, onText }) {
  const list = names.events.filter((event) => event.kind === LOGGED[kind]).map(({ name }) => name);
  if (typeof said !== 'string') return html`<code>${JSON.stringify(said)}</code>`;
  return html`<${Field} wide title=${{ performed: 'Event', viewed: 'Page', screen: 'Screen' }[kind] ?? ''} value=${said}
      list=${list} onText=${onText} />`;
}

/** @param {{ kind: string, condition: Item, names: Names, onChange: OnChange }} props */
function Did({ kind, condition, names, onChange }) {
  const name = ['exactly', 'atLeast', 'atMost'].find((each) => condition[each] !== undefined) ?? 'once';
  /** @param {string} next */
  const recount = (next) => {
    const { exactly: _, atLeast: __, atMost: ___, ...rest } = condition;
    onChange(next === 'once' ? rest : { ...rest, [next]: condition[name] ?? 2 });
  };
  return html`<${Named} kind=${kind} said=${condition[kind]} names=${names}
        onText=${(/** @type {string} */ text) => onChange({ ...condition, [kind]: text })} />
    <${Choice} title="How often" value=${name} options=${COUNTS} onChoose=${recount} />
    ${
      name !== 'once' &&
      html`<${Field} key=${name} title="Times" type="number" value=${String(condition[name])}
          onText=${(/** @type {string} */ text) => onChange({ ...condition, [name]: typed(text) })} />`
    }
    <${Field} title="Within" value=${condition['within'] ?? ''} hint="90 days"
        onText=${(/** @type {string} */ text) => onChange(changed(condition, 'within', text))} />
    <${Where} where=${condition['where'] ?? {}} properties=${propertiesOf(names, kind, condition[kind])}
        onChange=${(/** @type {Item} */ where) => onChange(changed(condition, 'where', Object.keys(where).length > 0 ? where : undefined))} />`;
}

/** @param {Names} names @param {string} kind @param {any} said */
function propertiesOf({ events }, kind, said) {
  const found = events.find((event) => event.kind === LOGGED[kind] && event.name === said);
  return (found?.properties ?? []).map(
    (name) => `properties.${/[."\\]/.test(name) || name === '' ? JSON.stringify(name) : name}`,
  );
}

/** Filters on the message. @param {{ where: Item, properties: readonly string[], onChange: OnChange }} props */
function Where({ where, properties, onChange }) {
  /** @type {[string, Item][]} */
  const rows = Object.entries(where).map(([place, tests]) => [place, isMap(tests) ? tests : { is: tests }]);
  const fresh = [properties.find((name) => !Object.hasOwn(where, name)) ?? 'properties.', { exists: true }];
  return html`<${Rows} title="Filter" rows=${rows} fresh=${fresh} add="Add a filter"
      onChange=${(/** @type {any[]} */ next) => onChange(Object.fromEntries(next))}>${(
        /** @type {[string, Item]} */ [place, tests],
        /** @type {number} */ _index,
        /** @type {OnChange} */ onRow,
      ) => html`<${Field} wide title="Property" value=${place} list=${properties}
            onText=${(/** @type {string} */ text) => onRow([text, tests])} />
        <${Tests} tests=${tests} beside=${[]} onChange=${(/** @type {Item} */ next) => onRow([place, next])} />`}<//>`;
}

/** Operators with their operands. @param {{ tests: Item, beside: readonly string[], onChange: OnChange }} props */
function Tests({ tests, beside, onChange }) {
  const names = Object.keys(tests).filter((name) => !beside.includes(name) && Object.hasOwn(OPERATORS, name));
  return (names.length > 0 ? names : ['exists']).map((name) => {
    const takes = OPERATORS[name];
    const operand = tests[name];
    /** @param {string} next */
    const become = (next) => {
      const { [name]: _, ...rest } = tests;
      const isAlike = OPERATORS[next] === takes || (OPERATORS[next] !== 'flag' && takes !== 'flag');
      onChange({
        ...rest,
        [next]: isAlike ? operandOf(OPERATORS[next], textOf(operand)) : OPERATORS[next] === 'flag' ? true : '',
      });
    };
    /** @param {string} text */
    const set = (text) => onChange({ ...tests, [name]: operandOf(takes, text) });
    return html`<${Choice} title="Operator" value=${name} options=${asOptions(Object.keys(OPERATORS))} onChoose=${become} />
      ${
        takes === 'flag'
          ? html`<${Choice} title="Value" value=${String(operand ?? true)} options=${asOptions(['true', 'false'])}
              onChoose=${set} />`
          : html`<${Field} key=${takes === 'list'} wide title="Value" value=${textOf(operand)}
              hint=${{ list: 'one, two', span: '7 days', instant: '2026-01-31' }[takes ?? '']} onText=${set} />`
      }`;
  });
}

/** @param {string | undefined} takes @param {string} text */
function operandOf(takes, text) {
  if (takes === 'list') return text.split(',').map((each) => typed(each.trim()));
  return takes === 'text' || takes === 'instant' || takes === 'span' ? text : typed(text);
}

/** Steps, of which the last may be that something did not happen. @param {{ condition: Item, names: Names, onChange: OnChange }} props */
function Sequence({ condition, names, onChange }) {
  /** @type {Item[]} */
  const steps = condition['sequence'];
  const options = { ...Object.fromEntries(ACTIVITY.map((name) => [name, KINDS[name]])), not: 'did not' };
  return html`<${Field} title="Within" value=${condition['within'] ?? ''} hint="90 days"
        onText=${(/** @type {string} */ text) => onChange(changed(condition, 'within', text))} />
    <${Rows} title="Step" rows=${steps} fresh=${{ performed: '' }} add="Add a step" least=${2} most=${10}
        onChange=${(/** @type {Item[]} */ sequence) => onChange({ ...condition, sequence })}>
      ${(/** @type {Item} */ step, /** @type {number} */ index, /** @type {OnChange} */ onStep) => {
        const said = isMap(step['not']) ? step['not'] : step;
        const kind = ACTIVITY.find((name) => Object.hasOwn(said, name)) ?? 'performed';
        const shown = said === step ? kind : 'not';
        /** @param {Item} next */
        const change = (next) => onStep({ ...(step['after'] ? { after: step['after'] } : {}), ...next });
        /** @param {string} name */
        const become = (name) => change(name === 'not' ? { not: { performed: said[kind] } } : { [name]: said[kind] });
        /** @param {string} text */
        const rename = (text) => change(said === step ? { ...step, [kind]: text } : { not: { ...said, [kind]: text } });
        /** @param {string} text */
        const since = (text) =>
          onStep(changed(step, 'after', text === '' ? undefined : { ...step['after'], atMost: text }));
        return html`<${Choice} title="Step" value=${shown} options=${options} onChoose=${become} />
          <${Named} kind=${kind} said=${said[kind]} names=${names} onText=${rename} />
          ${
            index > 0 &&
            html`<${Field} title="At most after the step before" value=${step['after']?.atMost ?? ''} hint="1 day"
                onText=${since} />`
          }
          <${Others} of=${step} shown=${[kind, 'not', 'after']} />`;
      }}
    <//>`;
}

/** The value of a computed trait. @param {{ value: Item, names: Names, onChange: OnChange }} props */
function Value({ value, names, onChange }) {
  const operator = VALUE_OPERATORS.find((name) => Object.hasOwn(value, name)) ?? 'count';
  const { [operator]: said, ...rest } = value;
  /** @param {string} next */
  const become = (next) => {
    const { of, ...others } = rest;
    onChange({ [next]: said, ...(next === 'count' ? {} : { of: of ?? 'properties.' }), ...others });
  };
  return html`<div class="filters">
    <${Choice} title="The value is" value=${operator} options=${asOptions(VALUE_OPERATORS)} onChoose=${become} />
    <${Named} kind="performed" said=${said} names=${names}
        onText=${(/** @type {string} */ text) => onChange({ ...value, [operator]: text })} />
    ${
      operator !== 'count' &&
      html`<${Field} wide title="Of the property" value=${value['of'] ?? ''}
          list=${propertiesOf(names, 'performed', said)}
          onText=${(/** @type {string} */ text) => onChange({ ...value, of: text })} />`
    }
    <${Field} title="Within" value=${value['within'] ?? ''} hint="90 days"
        onText=${(/** @type {string} */ text) => onChange(changed(value, 'within', text))} />
    <${Where} where=${value['where'] ?? {}} properties=${propertiesOf(names, 'performed', said)}
        onChange=${(/** @type {Item} */ where) => onChange(changed(value, 'where', Object.keys(where).length > 0 ? where : undefined))} />
  </div>`;
}
