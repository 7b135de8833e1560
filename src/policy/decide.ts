// The one decision. Order: a rule that forbids → deny; nothing permits → deny; a rule that asks →
// ask; else allow. A question that cannot be understood and a rule that cannot be evaluated deny.
import type { Bundle } from './bundle.ts';
import { type Cedar, cedarIfLoaded, loadCedar, type Question } from './cedar.ts';
import { type Compiled, type CompiledBase, compileAgent, compileBase } from './compile.ts';
import { type Placed, placeResource, readPrincipal } from './entities.ts';
import { type Answer, type Request, strictest } from './request.ts';
import { type Rule, ruleFits } from './rule.ts';

export type Policy = {
  version: number;
  hash: string;
  /** Loads what deciding needs; decideNow works from then on. Refuses rules that do not parse. */
  warm(): Promise<void>;
  decide(request: Request): Promise<Answer>;
  /** The same at once; only after `warm`. */
  decideNow(request: Request): Answer;
  /** The strictest answer to all of them. */
  decideAll(requests: readonly Request[]): Promise<Answer>;
  /** Everything that can decide about this principal. */
  rulesOf(principal: string): Promise<readonly Rule[]>;
  bundle: Bundle;
};

const AGENTS_MAX = 64;
const ANSWERS_MAX = 2_048;

/** Sets of rules in Cedar are named after the policy they belong to. */
let serial = 0;

export function makePolicy(bundle: Bundle, { nowMs }: { nowMs(): number }): Policy {
  const own = ++serial;
  const answers = new Map<string, Answer>();
  const compiled = new Map<string, Compiled>();
  let base: CompiledBase | undefined;
  let changesAtMs = Number.POSITIVE_INFINITY;

  const warm = async (): Promise<void> => {
    base ??= compileBase(await loadCedar(), bundle);
  };

  const compiledFor = (cedar: Cedar, principal: Placed['uid']): Compiled => {
    const key = `${principal.type}:${principal.id}`;
    let found = compiled.get(key);
    if (found === undefined) {
      if (compiled.size >= AGENTS_MAX) compiled.delete(compiled.keys().next().value!);
      found = compileAgent(cedar, bundle, base!, principal);
    } else compiled.delete(key);
    compiled.set(key, found);
    return found;
  };

  /** Rules that have ended are left out; answers that rest on them are forgotten. */
  const inForce = (rules: readonly Rule[], now: number): Rule[] => {
    for (const { untilMs } of rules)
      if (untilMs !== null && untilMs > now) changesAtMs = Math.min(changesAtMs, untilMs);
    return rules.filter(({ untilMs }) => untilMs === null || now < untilMs);
  };

  const decideFresh = (request: Request, now: number): Answer => {
    const say = (answer: Answer['answer'], rules: string[], reason: string): Answer => ({
      answer,
      rules,
      reason,
      version: bundle.version,
    });
    const cedar = cedarIfLoaded();
    if (cedar === undefined || base === undefined) throw new Error('decided before it was warm');
    const uid = readPrincipal(request.principal);
    if (uid === undefined) return say('deny', ['base:unknown'], 'nobody has such a name');
    if (uid.type === 'Agent' && !Object.hasOwn(bundle.agents, uid.id))
      return say('deny', ['base:unknown'], `there is no agent ${uid.id}`);
    const place = placeResource(request.resource);
    if (!place.ok) return say('deny', ['base:canonical'], place.problem);
    let found: Compiled;
    try {
      found = compiledFor(cedar, uid);
    } catch (error) {
      return say('deny', ['base:error'], `it cannot be decided: ${(error as Error).message}`);
    }
    const { rules, principal } = found;
    const asked = { principal, action: request.action, resource: place.placed };
    const fitting = inForce(rules, now).filter((rule) => ruleFits(rule, asked));
    const question: Question = {
      principal: uid,
      action: { type: 'Action', id: request.action },
      resource: place.placed.uid,
      context: { labels: [], ...request.context },
      entities: [principal, place.placed],
    };
    const verdict = judge(cedar, `${own}`, fitting, question);
    const reason =
      verdict.reason ?? `nothing allows ${uid.id} ${request.action} on ${request.resource.id}`;
    return say(verdict.answer, verdict.rules, reason);
  };

  const decideNow = (request: Request): Answer => {
    const now = nowMs();
    if (now >= changesAtMs) {
      answers.clear();
      changesAtMs = Number.POSITIVE_INFINITY;
    }
    const key = JSON.stringify(request);
    const known = answers.get(key);
    if (known !== undefined) return known;
    const answer = decideFresh(request, now);
    if (answers.size >= ANSWERS_MAX) answers.delete(answers.keys().next().value!);
    answers.set(key, answer);
    return answer;
  };
  const decide = async (request: Request): Promise<Answer> => {
    if (base === undefined) await warm();
    return decideNow(request);
  };
  return {
    version: bundle.version,
    hash: bundle.hash,
    bundle,
    warm,
    decide,
    decideNow,
    async decideAll(requests) {
      if (base === undefined) await warm();
      return strictest(requests.map(decideNow));
    },
    async rulesOf(principal) {
      await warm();
      const uid = readPrincipal(principal);
      if (uid === undefined) return [];
      return inForce(compiledFor(await loadCedar(), uid).rules, nowMs());
    },
  };
}

type Verdict = { answer: Answer['answer']; rules: string[]; reason?: string };

/** Only rules whose scope fits are given to Cedar: none of the others could hold. */
function judge(
  cedar: Cedar,
  policy: string,
  fitting: readonly Rule[],
  question: Question,
): Verdict {
  const permits = fitting.filter(({ effect }) => effect === 'permit');
  if (permits.length === 0) {
    // Which rule would forbid it besides is worth saying.
    const forbids = fitting.filter((rule) => rule.ask === null);
    const hit = forbids.length === 0 ? undefined : evaluate(cedar, policy, forbids, question);
    if (hit === undefined || hit.problem !== undefined || hit.holding.length === 0)
      return { answer: 'deny', rules: [] };
    return because('deny', hit.holding);
  }
  const whole = evaluate(cedar, policy, fitting, question);
  if (whole.problem !== undefined)
    return { answer: 'deny', rules: ['base:error'], reason: whole.problem };
  const forbids = whole.holding.filter(({ effect, ask }) => effect === 'forbid' && ask === null);
  if (forbids.length > 0) return because('deny', forbids);
  const asks = whole.holding.filter(({ ask }) => ask !== null);
  if (whole.allow && asks.length === 0)
    return {
      answer: 'allow',
      rules: idsOf(whole.holding),
      reason: whyOf(whole.holding, 'allowed'),
    };
  if (asks.length === 0) return { answer: 'deny', rules: [] };
  const alone = evaluate(cedar, policy, permits, question);
  return alone.problem === undefined && alone.allow
    ? because('ask', asks)
    : { answer: 'deny', rules: [] };
}

const idsOf = (rules: readonly Rule[]): string[] => rules.map(({ id }) => id);
const whyOf = (rules: readonly Rule[], otherwise: string): string => {
  const words = rules.flatMap(({ ask, why }) => ask ?? why ?? []);
  return words.length === 0 ? `${otherwise} by ${idsOf(rules).join(', ')}` : words.join('; ');
};
const because = (answer: 'ask' | 'deny', rules: readonly Rule[]): Verdict => ({
  answer,
  rules: idsOf(rules),
  reason: whyOf(rules, 'forbidden'),
});

type Evaluated = { allow: boolean; holding: Rule[]; problem?: string };

/**
 * Cedar drops a rule that it cannot evaluate. For a permit that is right; a forbid must not vanish
 * that way, so it counts as holding.
 */
function evaluate(
  cedar: Cedar,
  policy: string,
  rules: readonly Rule[],
  question: Question,
): Evaluated {
  const texts = () => Object.fromEntries(rules.map(({ id, text }) => [id, text]));
  const key = `${policy} ${rules.map(({ id }) => id).join(' ')}`;
  const response = cedar.ask(key, texts, question);
  if (!response.ok)
    return { allow: false, holding: [], problem: `it cannot be decided: ${response.problem}` };
  const named = new Set(response.reasons);
  const failed = new Set(response.errors);
  const holding = rules.filter(
    ({ id, effect }) => named.has(id) || (effect === 'forbid' && failed.has(id)),
  );
  return { allow: response.allow, holding };
}
