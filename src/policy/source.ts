// The policy in force, for a daemon that decides: read from the published bundle at the first
// question, followed as it changes. A broken bundle changes nothing and is said loudly; without any
// bundle nothing is decided.
import { statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { followDir } from '../platform/watch-dir.ts';
import { fault } from '../wire/errors.ts';
import type { HostPort } from './box-hosts.ts';
import {
  type AgentBoxRules,
  boxRulesOf,
  type DeclaredRules,
  declaredRulesOf,
} from './box-rules.ts';
import { readBundle } from './bundle-file.ts';
import { toolsOf } from './capabilities.ts';
import { makePolicy, type Policy } from './decide.ts';
import { isWithin } from './paths.ts';
import type { PolicyDecision, Request } from './request.ts';
import type { Rule } from './rule.ts';

type Declared = { read: readonly string[]; write: readonly string[] };

export type PolicySource = {
  /** Makes ready for the first question, which takes some tens of ms; never fails. */
  warm(): Promise<void>;
  decide(request: Request): Promise<PolicyDecision>;
  /** The strictest answer to all of them, from one version. */
  decideAll(requests: readonly Request[]): Promise<PolicyDecision>;
  /**
   * `granted`: what people let one run of the agent reach besides. `touched`: what one call was
   * decided on; paths that rules ask about are open only to such a call.
   */
  boxRulesOf(
    agent: string,
    granted?: readonly HostPort[],
    touched?: readonly string[],
  ): Promise<AgentBoxRules>;
  declaredRulesOf(agent: string, declared: Declared): Promise<DeclaredRules>;
  rulesOf(principal: string): Promise<readonly Rule[]>;
  /** What the manifest of an agent gives it; nothing when there is none. */
  toolsOf(agent: string): Promise<string[]>;
  /** Of the policy in force; undefined before the first question. */
  version(): number | undefined;
  close(): void;
};

export type PolicySourceOptions = {
  file: string;
  log: Log;
  clock: Clock;
  /** A new version is in force. */
  onLoaded?: (policy: { version: number; hash: string }) => void;
  /** A published bundle could not be taken; what was in force stays. */
  onRefused?: (refused: { problem: string; versionInForce: number | null }) => void;
};

const LOOK_EVERY_MS = 500;
/** A rule that ends by itself must not hold longer than a second in a plan either. */
const PLAN_HOLDS_MS = 250;
const PLANS_MAX = 256;

export function openPolicySource(options: PolicySourceOptions): PolicySource {
  const { file, log, clock } = options;
  let inForce: Policy | undefined;
  const plans = new Map<string, { policy: Policy; rules: AgentBoxRules; untilMs: number }>();
  let seen = '';
  let refused = '';
  let loading: Promise<void> | undefined;
  let followed: { close(): void } | undefined;
  let closed = false;

  const refuse = (problem: string): void => {
    if (refused === `${seen} ${problem}`) return;
    refused = `${seen} ${problem}`;
    const versionInForce = inForce?.version ?? null;
    log.error('the published policy is broken; what was in force stays', {
      file,
      problem,
      version_in_force: versionInForce,
    });
    options.onRefused?.({ problem, versionInForce });
  };

  const loadOnce = async (): Promise<void> => {
    try {
      const stamp = stampOf(file);
      if (stamp === undefined || stamp === seen) {
        if (stamp === undefined && inForce !== undefined) {
          seen = '';
          refuse('it has gone');
        }
        return;
      }
      seen = stamp;
      const read = readBundle(file);
      if (!read.ok) return refuse(read.problem);
      if (read.bundle.hash === inForce?.hash && read.bundle.version === inForce.version) return;
      const policy = makePolicy(read.bundle, clock);
      await policy.warm();
      inForce = policy;
      refused = '';
      log.info('policy in force', { version: policy.version, hash: policy.hash });
      options.onLoaded?.({ version: policy.version, hash: policy.hash });
    } catch (error) {
      refuse((error as Error).message);
    }
  };
  /** One at a time; whoever asks meanwhile waits for the one that is under way. */
  const load = (): Promise<void> => {
    loading ??= loadOnce().finally(() => {
      loading = undefined;
    });
    return loading;
  };

  /** Nothing is watched before the first question: an idle daemon has nothing to keep current. */
  const follow = (): void => {
    if (closed) return;
    followed ??= followDir({
      dir: dirname(file),
      name: basename(file),
      clock,
      settleMs: 0,
      lookEveryMs: LOOK_EVERY_MS,
      look: () => void load(),
    });
  };

  const current = async (): Promise<Policy> => {
    if (inForce === undefined) {
      follow();
      await load();
    }
    if (inForce === undefined)
      throw fault('unavailable', 'there is no policy in force, so nothing is decided', {
        hint: 'agentd publishes it when it starts; see its log.',
      });
    return inForce;
  };
  const planOf = async (
    policy: Policy,
    agent: string,
    granted: readonly HostPort[],
    opened: readonly string[],
  ): Promise<AgentBoxRules> => {
    const key = JSON.stringify([agent, granted, opened]);
    const known = plans.get(key);
    if (known?.policy === policy && clock.nowMs() < known.untilMs) return known.rules;
    const rules = await boxRulesOf(policy, agent, granted, opened);
    if (plans.size >= PLANS_MAX) plans.delete(plans.keys().next().value!);
    plans.set(key, { policy, rules, untilMs: clock.nowMs() + PLAN_HOLDS_MS });
    return rules;
  };
  return {
    warm: () =>
      current().then(
        () => {},
        () => {},
      ),
    decide: async (request) => (await current()).decideNow(request),
    async decideAll(requests) {
      return (await current()).decideAll(requests);
    },
    async boxRulesOf(agent, granted = [], touched = []) {
      const policy = await current();
      const usual = await planOf(policy, agent, granted, []);
      const isTouched = (asked: string) =>
        touched.some((path) => path === asked || isWithin(path, asked));
      const opened = usual.asked.filter(isTouched);
      return opened.length === 0 ? usual : planOf(policy, agent, granted, opened);
    },
    declaredRulesOf: async (agent, declared) => declaredRulesOf(await current(), agent, declared),
    rulesOf: async (principal) => (await current()).rulesOf(principal),
    async toolsOf(agent) {
      const { agents } = (await current()).bundle;
      return Object.hasOwn(agents, agent) ? toolsOf({ spec: agents[agent]! }).tools : [];
    },
    version: () => inForce?.version,
    close() {
      closed = true;
      followed?.close();
    },
  };
}

/** Changes with every rename into place; undefined when there is no file. */
function stampOf(file: string): string | undefined {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? undefined : `${stat.ino} ${stat.mtimeNs} ${stat.size}`;
}
