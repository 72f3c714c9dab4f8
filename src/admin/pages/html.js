import htm from 'htm';
import { h } from 'preact';

/**
 * Markup as a template. Values are text or a component's output, never markup.
 *
 * @type {(strings: TemplateStringsArray, ...values: unknown[]) => import('preact').VNode}
 */
export const html = /** @type {any} */ (htm.bind(/** @type {any} */ (h)));
