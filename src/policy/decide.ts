// Decides policy requests. Order: a matching forbid → deny; no matching permit → deny; a matching
// @ask → ask; else allow. Malformed requests and rules that cannot be evaluated deny.
import type { Bundle } from './bundle.ts';
import { type Cedar, type CedarRequest, cedarIfLoaded, loadCedar } from './cedar.ts';
import { type CompiledBase, type CompiledPolicy, compileAgent, compileBase } from './compile.ts';
import { contradiction, type EntityParents, placeResource } from './entities.ts';
import { readPrincipal } from './principals.ts';
import {
  type PolicyContext,
  type PolicyDecision,
  type PolicyRecord,
  type Request,
  strictest,
} from './request.ts';
import { type Rule, ruleFits, scopeFits } from './rule.ts';
import { shapeProblem } from './shapes.ts';

export type Policy = {
  version: number;
  hash: string;
  /** Loads Cedar and the rules, for decideNow. Rejects when a rule does not parse. */
  warm(): Promise<void>;
  decide(request: Request): Promise<PolicyDecision>;
  /** Decides synchronously; throws before `warm` has resolved. */
  decideNow(request: Request): PolicyDecision;
  /** Returns the strictest decision. */
  decideAll(requests: readonly Request[]): Promise<PolicyDecision>;
  /** Returns all rules that can apply to this principal. */
  listRules(principal: string): Promise<readonly Rule[]>;
  bundle: Bundle;
};

const AGENTS_MAX = 64;
const DECISIONS_MAX = 2_048;
/** Decisions on longer arguments, such as the text of a file, are not cached. */
const KEY_CHARS_MAX = 4_096;

/** Makes the cache keys of rule sets in Cedar unique per policy. */
let serial = 0;

export function makePolicy(bundle: Bundle, { nowMs }: { nowMs(): number }): Policy {
  const own = ++serial;
  const decisions = new Map<string, PolicyDecision>();
  const compiled = new Map<string, CompiledPolicy>();
  let base: CompiledBase | undefined;
  /** When the next rule expires. */
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

  /** Leaves out expired rules, and notes the next expiry so that cached decisions are dropped. */
  const inForce = (rules: readonly Rule[], now: number): Rule[] => {
    for (const { untilMs } of rules)
      if (untilMs !== null && untilMs > now) changesAtMs = Math.min(changesAtMs, untilMs);
    return rules.filter(({ untilMs }) => untilMs === null || now < untilMs);
  };

  /** Returns the arguments where a rule about the tool reads them. */
  const readArguments = ({ action, resource, arguments: read }: Request) => {
    const rules = base?.argumentRules ?? [];
    if (rules.length === 0 || action !== 'tool.call' || read === undefined) return undefined;
    const found = placeResource(resource);
    const isRead = found.ok && rules.some(({ scope }) => scopeFits(scope.resource, found.placed));
    return isRead ? read() : undefined;
  };

  const decideFresh = (
    request: Request,
    given: PolicyRecord | undefined,
    now: number,
  ): PolicyDecision => {
    const { version } = bundle;
    const deny = (rule: string, reason: string): PolicyDecision => ({
      answer: 'deny',
      rules: [rule],
      reason,
      version,
    });
    const cedar = cedarIfLoaded();
    if (cedar === undefined || base === undefined) throw new Error('decideNow called before warm');
    const uid = readPrincipal(request.principal);
    if (uid === undefined) return deny('base:unknown', 'the principal is invalid');
    if (uid.type === 'Agent' && !Object.hasOwn(bundle.agents, uid.id))
      return deny('base:unknown', `agent ${uid.id} not found`);
    const context = { labels: [], ...request.context };
    const { action, resource } = request;
    const malformed =
      shapeProblem({ principal: uid.type, action, resource: resource.type, context }) ??
      contradiction(resource, context);
    if (malformed !== undefined) return deny('base:shape', `it cannot be decided: ${malformed}`);
    const found = placeResource(resource);
    if (!found.ok) return deny('base:canonical', found.problem);
    let policy: CompiledPolicy;
    try {
      policy = compiledFor(cedar, uid);
    } catch (error) {
      return deny('base:error', `it cannot be decided: ${(error as Error).message}`);
    }
    const { rules, principal } = policy;
    const query = { principal, action, resource: found.placed };
    const fitting = inForce(rules, now).filter((rule) => ruleFits(rule, query));
    const cedarRequest: CedarRequest = {
      principal: uid,
      action: { type: 'Action', id: action },
      resource: found.placed.uid,
      context: given === undefined ? context : { ...context, arguments: given },
      entities: [principal, found.placed],
    };
    const matching = matchingRules(cedar, own, fitting, cedarRequest);
    if ('problem' in matching)
      return deny('base:error', `it cannot be decided: ${matching.problem}`);
    const reason = `no rule allows ${uid.id} ${action} on ${resource.id}`;
    return { reason, ...evaluate(matching, context), version };
  };

  const decideNow = (request: Request): PolicyDecision => {
    const now = nowMs();
    if (now >= changesAtMs) {
      decisions.clear();
      changesAtMs = Number.POSITIVE_INFINITY;
    }
    // The arguments are a function there, so they are in the key only where a rule reads them.
    const given = readArguments(request);
    const text = JSON.stringify(request);
    const key = given === undefined ? text : `${text} ${JSON.stringify(given)}`;
    if (given !== undefined && key.length > KEY_CHARS_MAX) return decideFresh(request, given, now);
    const known = decisions.get(key);
    if (known !== undefined) return known;
    const decision = decideFresh(request, given, now);
    // Frozen because all callers share the cached object.
    Object.freeze(Object.freeze(decision).rules);
    if (decisions.size >= DECISIONS_MAX) decisions.delete(decisions.keys().next().value!);
    decisions.set(key, decision);
    return decision;
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
    async listRules(principal) {
      await warm();
      const uid = readPrincipal(principal);
      if (uid === undefined) return [];
      return inForce(compiledFor(await loadCedar(), uid).rules, nowMs());
    },
  };
}

type RuleOutcome = { answer: PolicyDecision['answer']; rules: string[]; reason?: string };

function evaluate(matching: readonly Rule[], { method }: PolicyContext): RuleOutcome {
  const forbids = matching.filter(({ effect, ask }) => effect === 'forbid' && ask === null);
  if (forbids.length > 0) return because('deny', forbids, 'forbidden');
  const permits = matching.filter(({ effect }) => effect === 'permit');
  if (permits.length === 0) return { answer: 'deny', rules: [] };
  const isNamed = permits.some(({ methods }) => methods.includes(method as string));
  const asks = matching.filter(
    ({ ask, yieldsToMethod: yields }) => ask !== null && !(yields && isNamed),
  );
  return asks.length > 0 ? because('ask', asks, 'asked') : because('allow', permits, 'allowed');
}

function because(
  answer: PolicyDecision['answer'],
  rules: readonly Rule[],
  verb: string,
): RuleOutcome {
  const ids = rules.map(({ id }) => id);
  const reasons = rules.flatMap(({ ask, why }) => ask ?? why ?? []);
  const reason = reasons.length === 0 ? `${verb} by ${ids.join(', ')}` : reasons.join('; ');
  return { answer, rules: ids, reason };
}

/**
 * Returns the rules that match. A rule without conditions matches where its scope fits; Cedar
 * evaluates the others. A rule that Cedar cannot evaluate matches if it forbids, not if it permits.
 */
function matchingRules(
  cedar: Cedar,
  policy: number,
  fitting: readonly Rule[],
  request: CedarRequest,
): Rule[] | { problem: string } {
  const matches = new Set<string>();
  for (const effect of ['forbid', 'permit'] as const) {
    const conditional = fitting.filter((rule) => !rule.isUnconditional && rule.effect === effect);
    if (conditional.length === 0) continue;
    const key = `${policy} ${conditional.map(({ id }) => id).join(' ')}`;
    // Sent as text, because 64-bit integers would not survive as JSON.
    const texts = () => Object.fromEntries(conditional.map(({ id, text }) => [id, text]));
    const response = cedar.hold(key, texts, request);
    if (!response.ok) return response;
    for (const id of response.holding) matches.add(id);
    if (effect === 'forbid') for (const id of response.failed) matches.add(id);
  }
  return fitting.filter(({ id, isUnconditional }) => isUnconditional || matches.has(id));
}
