// Gives a daemon the policy in force. Loads the published bundle at the first request and reloads
// it when it changes. An invalid bundle is reported and the previous one stays in force; without
// any bundle every request fails.
import { statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { watchDir } from '../platform/watch-dir.ts';
import { fault } from '../wire/errors.ts';
import type { HostPort } from './box-hosts.ts';
import {
  type AgentBoxRules,
  type DeclaredRules,
  planAgentBox,
  planDeclaredPaths,
} from './box-rules.ts';
import { readBundle } from './bundle-file.ts';
import { findAllowedTools } from './capabilities.ts';
import { makePolicy, type Policy } from './decide.ts';
import { isWithin } from './paths.ts';
import type { PolicyDecision, Request } from './request.ts';
import type { Rule } from './rule.ts';

type DeclaredPaths = { read: readonly string[]; write: readonly string[] };

export type PolicySource = {
  /** Loads the policy ahead of the first request, which takes some tens of ms. Never rejects. */
  warm(): Promise<void>;
  decide(request: Request): Promise<PolicyDecision>;
  /** Returns the strictest decision; one version decides all requests. */
  decideAll(requests: readonly Request[]): Promise<PolicyDecision>;
  /**
   * `granted`: further hosts that people granted to the run. `touched`: the paths on which the call
   * was decided; paths with an ask rule are open only to such a call.
   */
  planAgentBox(
    agent: string,
    granted?: readonly HostPort[],
    touched?: readonly string[],
  ): Promise<AgentBoxRules>;
  planDeclaredPaths(agent: string, declared: DeclaredPaths): Promise<DeclaredRules>;
  listRules(principal: string): Promise<readonly Rule[]>;
  /** Returns the tools of an agent's manifest; none for an unknown agent. */
  toolsFor(agent: string): Promise<string[]>;
  /** Returns the names of all agents. */
  listAgents(): Promise<string[]>;
  /** Returns the version in force; undefined before the first load. */
  version(): number | undefined;
  close(): void;
};

export type PolicySourceOptions = {
  file: string;
  log: Log;
  clock: Clock;
  /** Called when a new version is in force. */
  onLoaded?: (policy: { version: number; hash: string }) => void;
  /** Called when a published bundle could not be loaded; the previous one stays in force. */
  onRefused?: (refused: { problem: string; versionInForce: number | null }) => void;
};

const POLL_INTERVAL_MS = 500;
/** Bounds how long a cached plan may keep an expired rule: less than a second. */
const PLAN_CACHE_MS = 250;
const PLANS_MAX = 256;

export function openPolicySource(options: PolicySourceOptions): PolicySource {
  const { file, log, clock } = options;
  let inForce: Policy | undefined;
  const plans = new Map<string, { policy: Policy; rules: AgentBoxRules; untilMs: number }>();
  let seen = '';
  let refused = '';
  let loading: Promise<void> | undefined;
  let watcher: { close(): void } | undefined;
  let closed = false;

  const refuse = (problem: string): void => {
    if (refused === `${seen} ${problem}`) return;
    refused = `${seen} ${problem}`;
    const versionInForce = inForce?.version ?? null;
    log.error('published policy is invalid; the previous one stays in force', {
      file,
      problem,
      version_in_force: versionInForce,
    });
    options.onRefused?.({ problem, versionInForce });
  };

  const loadOnce = async (): Promise<void> => {
    try {
      const stamp = readStamp(file);
      if (stamp === undefined || stamp === seen) {
        if (stamp === undefined && inForce !== undefined) {
          seen = '';
          refuse('the file is missing');
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
  /** Callers share a load in progress. */
  const load = (): Promise<void> => {
    loading ??= loadOnce().finally(() => {
      loading = undefined;
    });
    return loading;
  };

  /** Started at the first request, so that an idle daemon does not watch. */
  const watch = (): void => {
    if (closed) return;
    watcher ??= watchDir({
      dir: dirname(file),
      name: basename(file),
      clock,
      settleMs: 0,
      pollIntervalMs: POLL_INTERVAL_MS,
      onChange: () => void load(),
    });
  };

  const current = async (): Promise<Policy> => {
    if (inForce === undefined) {
      watch();
      await load();
    }
    if (inForce === undefined)
      throw fault('unavailable', 'no policy is in force', {
        hint: "Check agentd's log: agentd publishes the policy when it starts.",
      });
    return inForce;
  };
  const planFor = async (
    policy: Policy,
    agent: string,
    granted: readonly HostPort[],
    opened: readonly string[],
  ): Promise<AgentBoxRules> => {
    const key = JSON.stringify([agent, granted, opened]);
    const known = plans.get(key);
    if (known?.policy === policy && clock.nowMs() < known.untilMs) return known.rules;
    const rules = await planAgentBox(policy, agent, granted, opened);
    if (plans.size >= PLANS_MAX) plans.delete(plans.keys().next().value!);
    plans.set(key, { policy, rules, untilMs: clock.nowMs() + PLAN_CACHE_MS });
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
    async planAgentBox(agent, granted = [], touched = []) {
      const policy = await current();
      const usual = await planFor(policy, agent, granted, []);
      const isTouched = (asked: string) =>
        touched.some((path) => path === asked || isWithin(path, asked));
      const opened = usual.asked.filter(isTouched);
      return opened.length === 0 ? usual : planFor(policy, agent, granted, opened);
    },
    planDeclaredPaths: async (agent, declared) =>
      planDeclaredPaths(await current(), agent, declared),
    listRules: async (principal) => (await current()).listRules(principal),
    async toolsFor(agent) {
      const { agents } = (await current()).bundle;
      return Object.hasOwn(agents, agent) ? findAllowedTools({ spec: agents[agent]! }).tools : [];
    },
    listAgents: async () => Object.keys((await current()).bundle.agents),
    version: () => inForce?.version,
    close() {
      closed = true;
      watcher?.close();
    },
  };
}

/** Returns a stamp that changes when the file is replaced; undefined when there is no file. */
function readStamp(file: string): string | undefined {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? undefined : `${stat.ino} ${stat.mtimeNs} ${stat.size}`;
}
