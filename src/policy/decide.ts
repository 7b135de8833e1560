// The one decision. Order: a rule that forbids → deny; nothing permits → deny; a rule that asks →
// ask; else allow. A question that cannot be understood and a rule that cannot be evaluated deny.
import type { Bundle } from './bundle.ts';
import { type Cedar, type CedarRequest, cedarIfLoaded, loadCedar } from './cedar.ts';
import { type CompiledBase, type CompiledPolicy, compileAgent, compileBase } from './compile.ts';
import { contradiction, type EntityParents, placeResource, readPrincipal } from './entities.ts';
import { type PolicyDecision, type Request, strictest } from './request.ts';
import { type Rule, ruleFits } from './rule.ts';
import { shapeProblem } from './shapes.ts';

export type Policy = {
  version: number;
  hash: string;
  /** Loads what deciding needs; decideNow works from then on. Refuses rules that do not parse. */
  warm(): Promise<void>;
  decide(request: Request): Promise<PolicyDecision>;
  /** The same at once; only after `warm`. */
  decideNow(request: Request): PolicyDecision;
  /** The strictest answer to all of them. */
  decideAll(requests: readonly Request[]): Promise<PolicyDecision>;
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
  const answers = new Map<string, PolicyDecision>();
  const compiled = new Map<string, CompiledPolicy>();
  let base: CompiledBase | undefined;
  let changesAtMs = Number.POSITIVE_INFINITY;

  const warm = async (): Promise<void> => {
    base ??= compileBase(await loadCedar(), bundle);
  };

  const compiledFor = (cedar: Cedar, principal: EntityParents['uid']): CompiledPolicy => {
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

  const decideFresh = (request: Request, now: number): PolicyDecision => {
    const say = (
      answer: PolicyDecision['answer'],
      rules: string[],
      reason: string,
    ): PolicyDecision => ({
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
    const context = { labels: [], ...request.context };
    const { action, resource } = request;
    const odd =
      shapeProblem({ principal: uid.type, action, resource: resource.type, context }) ??
      contradiction(resource, context);
    if (odd !== undefined) return say('deny', ['base:shape'], `it cannot be decided: ${odd}`);
    const place = placeResource(resource);
    if (!place.ok) return say('deny', ['base:canonical'], place.problem);
    let found: CompiledPolicy;
    try {
      found = compiledFor(cedar, uid);
    } catch (error) {
      return say('deny', ['base:error'], `it cannot be decided: ${(error as Error).message}`);
    }
    const { rules, principal } = found;
    const asked = { principal, action, resource: place.placed };
    const fitting = inForce(rules, now).filter((rule) => ruleFits(rule, asked));
    const question: CedarRequest = {
      principal: uid,
      action: { type: 'Action', id: action },
      resource: place.placed.uid,
      context,
      entities: [principal, place.placed],
    };
    const holding = matchingRules(cedar, own, fitting, question);
    if ('problem' in holding)
      return say('deny', ['base:error'], `it cannot be decided: ${holding.problem}`);
    const verdict = evaluate(holding);
    const reason = verdict.reason ?? `nothing allows ${uid.id} ${action} on ${resource.id}`;
    return say(verdict.answer, verdict.rules, reason);
  };

  const decideNow = (request: Request): PolicyDecision => {
    const now = nowMs();
    if (now >= changesAtMs) {
      answers.clear();
      changesAtMs = Number.POSITIVE_INFINITY;
    }
    const key = JSON.stringify(request);
    const known = answers.get(key);
    if (known !== undefined) return known;
    const answer = decideFresh(request, now);
    // Kept and given out again: nobody may change it.
    Object.freeze(Object.freeze(answer).rules);
    if (answers.size >= ANSWERS_MAX) answers.delete(answers.keys().next().value!);
    answers.set(key, answer);
    return answer;
  };
  const decide = async (request: Request): Promise<PolicyDecision> => {
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

type RuleOutcome = { answer: PolicyDecision['answer']; rules: string[]; reason?: string };

function evaluate(holding: readonly Rule[]): RuleOutcome {
  const forbids = holding.filter(({ effect, ask }) => effect === 'forbid' && ask === null);
  if (forbids.length > 0) return because('deny', forbids, 'forbidden');
  const permits = holding.filter(({ effect }) => effect === 'permit');
  if (permits.length === 0) return { answer: 'deny', rules: [] };
  const asks = holding.filter(({ ask }) => ask !== null);
  return asks.length > 0 ? because('ask', asks, 'asked') : because('allow', permits, 'allowed');
}

function because(
  answer: PolicyDecision['answer'],
  rules: readonly Rule[],
  how: string,
): RuleOutcome {
  const ids = rules.map(({ id }) => id);
  const words = rules.flatMap(({ ask, why }) => ask ?? why ?? []);
  const reason = words.length === 0 ? `${how} by ${ids.join(', ')}` : words.join('; ');
  return { answer, rules: ids, reason };
}

/**
 * The rules that hold. One without conditions holds where its scope fits; the others are Cedar's to
 * say. What Cedar cannot evaluate counts as not permitting, and as forbidding.
 */
function matchingRules(
  cedar: Cedar,
  policy: number,
  fitting: readonly Rule[],
  question: CedarRequest,
): Rule[] | { problem: string } {
  const holds = new Set<string>();
  for (const effect of ['forbid', 'permit'] as const) {
    const open = fitting.filter((rule) => !rule.isUnconditional && rule.effect === effect);
    if (open.length === 0) continue;
    const key = `${policy} ${open.map(({ id }) => id).join(' ')}`;
    // As text: numbers of 64 bits would not survive as JSON.
    const texts = () => Object.fromEntries(open.map(({ id, text }) => [id, text]));
    const response = cedar.hold(key, texts, question);
    if (!response.ok) return response;
    for (const id of response.holding) holds.add(id);
    if (effect === 'forbid') for (const id of response.failed) holds.add(id);
  }
  return fitting.filter(({ id, isUnconditional }) => isUnconditional || holds.has(id));
}
