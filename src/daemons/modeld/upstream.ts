// Implements the service's Upstream port with the adapters: plans a call (its maximum cost over all
// routes) and runs it (tries, rate limits, circuits). Budgets and records belong to the service.
import type { Clock } from '../../platform/clock.ts';
import { Fault, fault } from '../../wire/errors.ts';
import { type Circuit, makeCircuit } from './adapters/circuit.ts';
import { costMicrousd, type PriceBook } from './adapters/prices.ts';
import {
  type CallLimits,
  makeProviderClient,
  type Provider,
  type ProviderCall,
  type ProviderClient,
  type TimeoutReason,
} from './adapters/provider-client.ts';
import { type Admission, makeRateLimiter, type RateLimiter } from './adapters/rate-limiter.ts';
import { runRoutes } from './adapters/retry.ts';
import { estimateInputTokens } from './adapters/tokens.ts';
import { findPrice, type PreparedRequest, type PreparedRoute, prepare } from './prepare.ts';
import type { ModelRoute, ResolvedModel } from './rules/models.ts';
import type {
  ModelInput,
  ModelResult,
  ProviderResult,
  ProviderSettings,
  ResponseObserver,
  RoutePlan,
  Upstream,
  UpstreamOptions,
} from './service/ports.ts';

type Connection = {
  settings: ProviderSettings;
  rateLimiter: RateLimiter;
  circuit: Circuit;
  limits: CallLimits;
  /** False once a stream did not: then its cost is not known, and none is asked for to be shown. */
  reportsStreamedUsage: boolean;
};
export type Hop = { route: ModelRoute; connection: Connection; prepared: PreparedRoute };

const CONNECT_TIMEOUT: TimeoutReason = 'connect_timeout';

/** Failures before a connection was made: nothing was sent, so nothing is billed. */
const NOT_CONNECTED: ReadonlySet<unknown> = new Set([
  CONNECT_TIMEOUT,
  'ECONNREFUSED',
  'ENOENT',
  'EACCES',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** Uses only `details`, because a message can quote the provider. Returns true when in doubt. */
export function canBeBilled(reason: Fault): boolean {
  const { upstream_status: status, reason: code } = reason.details ?? {};
  // With an error status the provider states that it did not do the work.
  if (typeof status === 'number' && status >= 400) return false;
  return !NOT_CONNECTED.has(code);
}

export function makeUpstream(options: {
  clock: Clock;
  random: () => number;
  prices: PriceBook;
}): Upstream {
  const { clock, random, prices } = options;
  const client = makeProviderClient({ clock });
  const connections = new Map<string, Connection>();

  const connect = (settings: ProviderSettings): void => {
    const { timeouts } = settings;
    connections.set(settings.name, {
      settings,
      rateLimiter: makeRateLimiter(settings.name, clock, {
        inFlightMax: settings.concurrency,
        requestsPerMinute: settings.requestsPerMinute,
        tokensPerMinute: settings.tokensPerMinute,
        queueMax: 1_024,
      }),
      circuit: makeCircuit(clock),
      limits: {
        connectTimeoutMs: timeouts.connectMs,
        firstByteTimeoutMs: timeouts.firstByteMs,
        idleTimeoutMs: timeouts.idleMs,
      },
      reportsStreamedUsage: true,
    });
  };

  /** The provider may have been removed while the call waited. */
  const getConnection = (provider: string): Connection => {
    const connection = connections.get(provider);
    if (connection === undefined) throw fault('unavailable', `provider ${provider} was removed`);
    return connection;
  };

  const plan = (
    ask: ModelInput,
    model: ResolvedModel,
    routes: readonly ModelRoute[],
  ): RoutePlan => {
    const hops = routes.map((route): Hop => {
      const connection = getConnection(route.provider);
      return {
        route,
        connection,
        prepared: prepare({
          input: ask,
          model,
          route,
          settings: connection.settings,
          prices,
          clock,
        }),
      };
    });
    const first = hops[0]!.prepared;
    const inputTokens = Math.max(...hops.map(({ prepared }) => prepared.inputTokens));
    return {
      bound: {
        inputTokens,
        outputTokensWanted: first.outputTokensWanted,
        outputTokensMin: first.outputTokensMin,
        computeCost: (outputTokens) =>
          Math.max(...hops.map(({ prepared }) => prepared.boundCost(inputTokens, outputTokens))),
      },
      inputTokensGuess: first.inputTokensGuess,
      computeCost: (route, { usage, cacheWriteLongTokens }) => {
        const hop = hops.find((h) => h.route === route) ?? hops[0]!;
        const { times } = hop.prepared;
        return costMicrousd(hop.prepared.price, { usage, cacheWriteLongTokens, times });
      },
      run: (run) => runPlan({ hops, run, client, clock, random }),
    };
  };

  return {
    connect,
    disconnect: (provider) => void connections.delete(provider),
    plan,
    state(provider) {
      const connection = connections.get(provider);
      if (connection === undefined)
        return { inFlight: 0, available: false, reason: 'unknown provider' };
      const { available, reason } = connection.circuit.availability();
      return {
        inFlight: connection.rateLimiter.inFlight(),
        available,
        ...(reason === undefined ? {} : { reason }),
      };
    },
    getPrice(provider, model) {
      const settings = connections.get(provider)?.settings ?? { name: provider };
      const { input, output, isKnown } = findPrice(prices, settings, model);
      return { input: input / 1_000_000, output: output / 1_000_000, is_guess: !isKnown };
    },
    estimateInputTokens,
    close: () => client.close(),
  };
}

type PlanRun = {
  hops: readonly Hop[];
  run: UpstreamOptions;
  client: ProviderClient;
  clock: Clock;
  random: () => number;
};

function runPlan({ hops, run, client, clock, random }: PlanRun): Promise<ProviderResult> {
  const { tries, signal } = run;
  const totalMs = Math.min(
    run.totalMs,
    Math.max(...hops.map(({ connection }) => connection.settings.timeouts.totalMs)),
  );
  return runRoutes<Hop, ProviderResult>({
    routes: hops,
    getCircuit: (hop) => hop.connection.circuit,
    getName: (hop) => `provider ${hop.route.provider}`,
    totalMs,
    clock,
    random,
    signal,
    async attempt({ route: hop, budgetMs, commit }) {
      const { connection } = hop;
      await run.beforeTry();
      const pass = await connection.rateLimiter.acquire({ tokens: run.tokensReserved, signal });
      tries.count++;
      tries.chain.push(hop.route.provider);
      try {
        const prefersStream = connection.reportsStreamedUsage && run.observer?.isWatched() === true;
        const sending = hop.prepared.makeRequest({ ...run, prefersStream });
        const call = makeProviderCall({ hop, sending, run, budgetMs });
        const read = sending.stream
          ? await sending.readStream(await client.callProvider({ ...call, stream: true }))
          : sending.readWhole(await client.callProvider({ ...call, stream: false }));
        const performed = { route: hop.route, ...read };
        commit();
        if (sending.stream) noteUsage(read.ended, connection);
        else if (run.observer !== undefined) showWhole(read.ended, run.observer);
        releaseWhenEnded(pass, performed.ended);
        return performed;
      } catch (error) {
        pass.release();
        if (!(error instanceof Fault) || canBeBilled(error)) tries.lost++;
        throw error;
      }
    },
  });
}

function noteUsage(ended: Promise<ModelResult>, connection: Connection): void {
  const note = ({ response, fault }: ModelResult): void => {
    if (fault === undefined && !response.usageReported) connection.reportsStreamedUsage = false;
  };
  void ended.then(note, () => undefined);
}

/** Shows a response that came as a whole. */
function showWhole(ended: Promise<ModelResult>, observer: ResponseObserver): void {
  const show = ({ response }: ModelResult): void => {
    const { parts } = response.message;
    if (observer.isWatched()) observer.show(parts.filter((part) => part.type !== 'tool_result'));
  };
  void ended.then(show, () => undefined);
}

function releaseWhenEnded(pass: Admission, ended: Promise<ModelResult>): void {
  const release = ({ response: { usage, usageReported } }: ModelResult): void =>
    pass.release(
      usageReported
        ? usage.input_tokens + usage.output_tokens + usage.cache_write_tokens
        : undefined,
    );
  void ended.then(release, () => pass.release());
}

function makeProviderCall(options: {
  hop: Hop;
  sending: PreparedRequest;
  run: UpstreamOptions;
  budgetMs: number;
}): Omit<ProviderCall, 'stream'> {
  const { hop, sending, run, budgetMs } = options;
  const { settings, limits } = hop.connection;
  const provider: Provider = {
    name: settings.name,
    dialect: sending.dialect,
    baseUrl: settings.baseUrl,
    readKey: settings.readKey,
  };
  return {
    provider,
    body: sending.body,
    headers: sending.headers,
    deadlineMs: budgetMs,
    signal: run.signal,
    limits,
    ...(sending.path === undefined ? {} : { path: sending.path }),
  };
}
