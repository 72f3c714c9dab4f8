import type { LiveState } from '../live.ts';
import type { OverSession } from '../records/session.ts';
import {
  addAudience,
  audiences,
  audiencesBehind,
  causesOf,
  changedBy,
  changesBehind,
  commitStep,
  countChanges,
  holdAudience,
  memberPage,
  membersOf,
  pastValues,
  pruneChanges,
} from './members.ts';
import {
  addToPlan,
  advanceAudience,
  cutPlan,
  dropAudience,
  dropPlan,
  findPlan,
  forgetUsers,
  planRows,
  plansOf,
  savePlan,
  tellPlan,
} from './plans.ts';
import {
  fillState,
  flaggedUsers,
  idsOlderThan,
  namedAudiences,
  personsAfter,
  personsDue,
  rewriteRows,
  rowsAround,
  rowsOfIds,
  rowsOfPersons,
  sharedRows,
  strayMembers,
} from './rows.ts';
import {
  allStates,
  beginState,
  clearOver,
  currentState,
  dropSource,
  endBuild,
  markSeen,
  nextState,
  rebuildAll,
  renewStates,
  setAsked,
} from './source-states.ts';

export const LIVE_VERBS = {
  ...{ currentState, nextState, allStates, beginState, setAsked, rebuildAll, renewStates, markSeen, dropSource },
  ...{ clearOver, endBuild },
  ...{ fillState, rowsOfIds, rowsOfPersons, rowsAround, sharedRows, idsOlderThan, personsAfter, namedAudiences },
  ...{ flaggedUsers, strayMembers, personsDue, rewriteRows },
  ...{ membersOf, commitStep, audiences, audiencesBehind, addAudience, holdAudience, countChanges, memberPage, changesBehind },
  ...{ pastValues, causesOf, changedBy, pruneChanges },
  ...{ savePlan, findPlan, plansOf, addToPlan, planRows, cutPlan, dropPlan, tellPlan, advanceAudience, dropAudience },
  ...{ forgetUsers },
} satisfies OverSession<LiveState>;
