// What approvald decides, from values alone: which class a chain of actions takes, what a permit
// covers, how many people are needed, and whether this person may still give this answer.
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

/** The class of the riskiest part, with the highest risk and the worst reversibility of all. */
export function riskiest(chain: readonly [ChainLink, ...ChainLink[]]): Danger & { class: string } {
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

/** What a call would do now and nobody was shown when it was asked for. */
export function unshown(
  now: readonly ChainLink[],
  shown: readonly ChainLink[],
): ChainLink | undefined {
  const isShown = (link: ChainLink) =>
    shown.some((one) => one.part !== 'beside' && one.class === link.class && !isWorse(link, one));
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
  /** The classes of all that was shown when it was given. */
  shown: readonly string[];
};
export type AskScope = Danger & {
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

const mayHavePermit = ({ labels, eachCall }: AskScope): boolean => !isMarked(labels) && !eachCall;

/** A permit reaches no further than its words, and to nothing riskier than what was shown. */
export function covers(permit: PermitScope, ask: AskScope): boolean {
  if (!mayHavePermit(ask)) return false;
  if (permit.agent !== ask.agent || permit.class !== ask.class) return false;
  if (isWorse(ask, permit)) return false;
  if (permit.action !== null && permit.action !== ask.action) return false;
  switch (permit.scope) {
    case 'task':
      return permit.rootTaskId === ask.rootTaskId;
    case 'repo':
      return permit.repo !== null && permit.repo === ask.repo;
    case 'class':
      // What a call brings along must have been shown to whoever permitted the class. What is open
      // beside it is decided on by itself, and is no worse.
      return ask.chain.every(({ part, class: word }) =>
        part === 'beside' ? true : permit.shown.includes(word),
      );
  }
}

/** What each kind of approval would permit, in words; what is not possible is not there. */
export function wouldPermit(ask: AskScope): Partial<Record<ApprovalReach, string>> {
  const once = 'exactly this, once, for each call that asks';
  if (!mayHavePermit(ask)) return { once };
  const who = `${ask.agent} may use ${ask.action}`;
  const which = 'with any arguments for which no other rule asks';
  const limit = `up to ${ask.risk} risk, ${ask.reversibility}, ${which}, until it expires`;
  return {
    once,
    task: `${who} in this task and its children, ${limit}`,
    ...(ask.repo === null ? {} : { repo: `${who} in ${ask.repo}, in any task, ${limit}` }),
    ...(isOfOwnClass(ask)
      ? { class: `${ask.agent} may do anything of class ${ask.class}, in any task, ${limit}` }
      : {}),
  };
}

/** Whoever agrees to a call does not agree to everything like the worst that happens beside it. */
export const isOfOwnClass = ({ class: word, chain }: Pick<AskScope, 'class' | 'chain'>): boolean =>
  chain[0]?.class === word;

export const narrowest = (reaches: readonly ApprovalReach[]): ApprovalReach =>
  REACHES.find((reach) => reaches.includes(reach)) ?? 'once';

/** `production.*` means everything below production. */
export function matchesWord(pattern: string, word: string): boolean {
  return pattern.endsWith('*') ? word.startsWith(pattern.slice(0, -1)) : pattern === word;
}

export function approversNeeded(
  patterns: readonly string[],
  ask: { action: string; chain: readonly ChainLink[] },
): 1 | 2 {
  const words = [ask.action, ...ask.chain.map((link) => link.class)];
  return words.some((word) => patterns.some((pattern) => matchesWord(pattern, word))) ? 2 : 1;
}

/** A person as a link knows them: whoever shares a key is one person, whatever they are called. */
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
const personOf = ({ by, key }: DecisionRecord): Person => ({ principal: by, key });

/**
 * The last word of each person whose approval counts for what would be done now. An edit makes
 * earlier ones void; whoever shares a name or a key is one person.
 */
export function approversOf<S extends DecisionRecord>(said: readonly S[]): S[] {
  const lastEdit = said.findLastIndex(
    (one) => one.answer === 'approve' && one.edited_hash !== null,
  );
  const people: S[] = [];
  for (const one of said.slice(Math.max(lastEdit, 0)).toReversed())
    if (
      one.answer === 'approve' &&
      !people.some((other) => isSamePerson(personOf(other), personOf(one)))
    )
      people.unshift(one);
  return people;
}

/** Why this person may not approve, or undefined. */
export function whyNotApprove(said: readonly DecisionRecord[], person: Person): string | undefined {
  const passed = said.findLast((one) => one.answer === 'escalate');
  if (passed === undefined) return undefined;
  const passers = said.filter((one) => one.answer === 'escalate').map(personOf);
  if (passers.some((one) => isSamePerson(one, person)))
    return `${person.principal} passed it on, so somebody else must approve it`;
  if (passed.to !== null && passed.to !== person.principal)
    return `it was passed on to ${passed.to}`;
  return undefined;
}

/** True when this answer says nothing new: somebody clicked twice. */
export function isRepeat(said: readonly DecisionRecord[], next: DecisionRecord): boolean {
  const mine = said.findLast((one) => isSamePerson(personOf(one), personOf(next)));
  // What somebody edited since is something else, and approving that is no repetition.
  const stands = next.answer !== 'approve' || approversOf(said).some((one) => one === mine);
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
