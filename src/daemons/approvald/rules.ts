// approvald's rules, as pure functions: the class of a chain of actions, what a permit covers, how
// many people must approve, and what one person may still decide.
import type { ApprovalReach, ChainLink, Reversibility, Risk } from '../../wire/approvald.ts';
import type { Label } from '../../wire/primitives.ts';

const RISKS: readonly Risk[] = ['low', 'medium', 'high'];
const REVERSIBILITIES: readonly Reversibility[] = [
  'read-only',
  'reversible',
  'externally-reversible',
  'irreversible',
];
const REACHES: readonly ApprovalReach[] = ['once', 'task', 'repo', 'class'];

type Danger = { risk: Risk; reversibility: Reversibility };

const isRiskier = (a: Danger, b: Danger): boolean => {
  const byRisk = RISKS.indexOf(a.risk) - RISKS.indexOf(b.risk);
  if (byRisk !== 0) return byRisk > 0;
  return REVERSIBILITIES.indexOf(a.reversibility) > REVERSIBILITIES.indexOf(b.reversibility);
};

/** Returns the riskiest link's class, with the highest risk and worst reversibility of all. */
export function combineRisks(
  chain: readonly [ChainLink, ...ChainLink[]],
): Danger & { class: string } {
  let worst = chain[0];
  let { risk, reversibility } = worst;
  for (const link of chain) {
    if (isRiskier(link, worst)) worst = link;
    if (RISKS.indexOf(link.risk) > RISKS.indexOf(risk)) risk = link.risk;
    if (REVERSIBILITIES.indexOf(link.reversibility) > REVERSIBILITIES.indexOf(reversibility))
      reversibility = link.reversibility;
  }
  return { class: worst.class, risk, reversibility };
}

/** Returns a link of the call that was not shown when the approval was requested. */
export function findUnshown(
  now: readonly ChainLink[],
  shown: readonly ChainLink[],
): ChainLink | undefined {
  const isShown = (link: ChainLink) =>
    shown.some(
      (known) => known.part !== 'beside' && known.class === link.class && !isWorse(link, known),
    );
  return now.find((link) => !isShown(link));
}

const isWorse = (a: Danger, b: Danger): boolean =>
  RISKS.indexOf(a.risk) > RISKS.indexOf(b.risk) ||
  REVERSIBILITIES.indexOf(a.reversibility) > REVERSIBILITIES.indexOf(b.reversibility);

/** A run that has read text from outside may be doing what that text says. */
export const isMarked = (labels: readonly Label[]): boolean => labels.includes('outside');

export type PermitScope = Danger & {
  scope: 'task' | 'repo' | 'class';
  agent: string;
  action: string | null;
  class: string;
  rootTaskId: string | null;
  repo: string | null;
  /** The classes of all links that were shown when the permit was granted. */
  shown: readonly string[];
};
export type RequestScope = Danger & {
  agent: string;
  action: string;
  class: string;
  chain: readonly ChainLink[];
  rootTaskId: string;
  repo: string | null;
  labels: readonly Label[];
  rules: readonly string[];
  /** The tool requires approval of every call. */
  eachCall: boolean;
};

const canHavePermit = ({ labels, eachCall }: RequestScope): boolean =>
  !isMarked(labels) && !eachCall;

/** A permit covers nothing beyond its scope, and nothing riskier than what was shown. */
export function covers(permit: PermitScope, request: RequestScope): boolean {
  if (!canHavePermit(request)) return false;
  if (permit.agent !== request.agent || permit.class !== request.class) return false;
  if (isWorse(request, permit)) return false;
  if (permit.action !== null && permit.action !== request.action) return false;
  switch (permit.scope) {
    case 'task':
      return permit.rootTaskId === request.rootTaskId;
    case 'repo':
      return permit.repo !== null && permit.repo === request.repo;
    case 'class':
      // Links that the call brings along must have been shown when the class was permitted. Calls
      // open beside it are decided on their own, and are no worse.
      return request.chain.every(
        (link) => link.part === 'beside' || permit.shown.includes(link.class),
      );
  }
}

/** Describes each reach that an approval of this request could have. */
export function describePermits(request: RequestScope): Partial<Record<ApprovalReach, string>> {
  const once = 'exactly this, once, for each call that asks';
  if (!canHavePermit(request)) return { once };
  const who = `${request.agent} may use ${request.action}`;
  const which = 'with any arguments for which no other rule asks';
  const limit = `up to ${request.risk} risk, ${request.reversibility}, ${which}, until it expires`;
  return {
    once,
    task: `${who} in this task and its children, ${limit}`,
    ...(request.repo === null ? {} : { repo: `${who} in ${request.repo}, in any task, ${limit}` }),
    ...(isOwnClass(request)
      ? {
          class: `${request.agent} may do anything of class ${request.class}, in any task, ${limit}`,
        }
      : {}),
  };
}

/** A class permit is only offered for the call's own class, not for that of a riskier link. */
export const isOwnClass = (request: Pick<RequestScope, 'class' | 'chain'>): boolean =>
  request.chain[0]?.class === request.class;

export const pickNarrowest = (reaches: readonly ApprovalReach[]): ApprovalReach =>
  REACHES.find((reach) => reaches.includes(reach)) ?? 'once';

/** `production.*` means everything below production. */
export function matchesPattern(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : pattern === name;
}

export function countApprovers(
  patterns: readonly string[],
  request: { action: string; chain: readonly ChainLink[] },
): 1 | 2 {
  const names = [
    request.action,
    toolOf(request.action),
    ...request.chain.map((link) => link.class),
  ];
  return names.some((name) => patterns.some((pattern) => matchesPattern(pattern, name))) ? 2 : 1;
}

/** An action may be narrower than its tool: `network.request a.org:443`. */
export const toolOf = (action: string): string => action.split(' ')[0]!;

/** A person as authenticated: principals that share a key are one person. */
export type Person = { principal: string; key: string };
export const isSamePerson = (a: Person, b: Person): boolean =>
  a.principal === b.principal || a.key === b.key;

export type DecisionRecord = {
  by: string;
  key: string;
  answer: 'approve' | 'reject' | 'request-info' | 'escalate';
  edited_hash: string | null;
  for: ApprovalReach | null;
  text: string | null;
  to: string | null;
};
const toPerson = ({ by, key }: DecisionRecord): Person => ({ principal: by, key });

/** Returns each person's last approval that still counts: an edit voids all earlier ones. */
export function selectApprovals<S extends DecisionRecord>(decisions: readonly S[]): S[] {
  const lastEdit = decisions.findLastIndex(
    (decision) => decision.answer === 'approve' && decision.edited_hash !== null,
  );
  const approvals: S[] = [];
  for (const decision of decisions.slice(Math.max(lastEdit, 0)).toReversed())
    if (
      decision.answer === 'approve' &&
      !approvals.some((later) => isSamePerson(toPerson(later), toPerson(decision)))
    )
      approvals.unshift(decision);
  return approvals;
}

/** Returns why this person may not approve, or undefined. */
export function findObstacle(
  decisions: readonly DecisionRecord[],
  person: Person,
): string | undefined {
  const escalations = decisions.filter((decision) => decision.answer === 'escalate');
  if (escalations.some((escalation) => isSamePerson(toPerson(escalation), person)))
    return `${person.principal} escalated it, so another person must approve it`;
  const to = escalations.at(-1)?.to ?? person.principal;
  return to === person.principal ? undefined : `it was escalated to ${to}`;
}

/** True when this decision only repeats the person's last one: a double click. */
export function isRepeat(decisions: readonly DecisionRecord[], next: DecisionRecord): boolean {
  const mine = decisions.findLast((decision) => isSamePerson(toPerson(decision), toPerson(next)));
  // Approving what another person has edited since is not a repetition.
  const stands =
    next.answer !== 'approve' || selectApprovals(decisions).some((approval) => approval === mine);
  return (
    mine !== undefined &&
    stands &&
    mine.by === next.by &&
    mine.answer === next.answer &&
    mine.for === next.for &&
    mine.text === next.text &&
    mine.to === next.to &&
    mine.edited_hash === next.edited_hash
  );
}
