// What the service needs of the outside, as small interfaces; upstream.ts and daemon.ts fit them.
import type { Fault } from '../../../wire/errors.ts';
import type { GenerateRequest, Message, ModelView, ProviderPrice } from '../../../wire/modeld.ts';
import type { DialectName, ModelResponse, ResponseEvent } from '../adapters/dialect.ts';
import type { CostBound } from '../rules/budget.ts';
import type { ModelRoute, ResolvedModel } from '../rules/models.ts';

/** A provider as the service knows it. The key is only ever handed on, by a function. */
export type ProviderSettings = {
  name: string;
  dialect: DialectName;
  baseUrl: string;
  readKey(): string | undefined;
  concurrency: number;
  requestsPerMinute: number | undefined;
  tokensPerMinute: number | undefined;
  maxTokensField: 'max_completion_tokens' | 'max_tokens' | undefined;
  /** What an operator said that all its models cost, in USD per million tokens. */
  price?: ProviderPrice | undefined;
  timeouts: { connectMs: number; firstByteMs: number; idleMs: number; totalMs: number };
};

export type ProviderState = { inFlight: number; available: boolean; reason?: string };

/** What is asked of a model: in our form, in a vendor's (body as it came), or texts to embed. */
export type ModelInput =
  | { form: 'neutral'; request: GenerateRequest; messages: Message[] }
  | {
      form: 'client';
      dialect: DialectName;
      text: string;
      body: Record<string, unknown>;
      callId: string;
    }
  | { form: 'embed'; input: string[] };

/**
 * What the tries of one call came to so far. Filled while they run, so that a failure can be
 * charged.
 */
export type TryStats = {
  count: number;
  /** Tries without an answer that the provider may bill all the same. */
  lost: number;
  chain: string[];
};

export type UpstreamOptions = {
  outputTokensMax: number;
  /** False when nothing limits the output, so that a client's body can go as it came. */
  isLimited: boolean;
  tokensReserved: number;
  totalMs: number;
  signal: AbortSignal;
  tries: TryStats;
  /** Before every try: takes the money for one more when an earlier one may cost too. */
  beforeTry(): Promise<void>;
};

export type ModelResult = { response: ModelResponse; fault?: Fault };
export type ModelOutput =
  | { type: 'answer' }
  | { type: 'embeddings'; embeddings: number[][] }
  | { type: 'events'; items: AsyncIterable<ResponseEvent[]> }
  | { type: 'bytes'; headers: Record<string, string>; body: Uint8Array | string }
  | {
      type: 'stream';
      headers: Record<string, string>;
      items: AsyncIterable<Uint8Array | string>;
    };

/** A call that a provider has answered, or begun to. */
export type ProviderResult = {
  route: ModelRoute;
  ended: Promise<ModelResult>;
  output: ModelOutput;
};

export type RoutePlan = {
  bound: CostBound;
  /** A guess for people's limits, where the bound would be too strict. */
  inputTokensGuess: number;
  /** Costs of what was really used, at the route that answered. */
  computeCost(
    route: ModelRoute,
    response: Pick<ModelResponse, 'usage' | 'cacheWriteLongTokens'>,
  ): number;
  /** Calls the provider, with retries and further routes. */
  run(options: UpstreamOptions): Promise<ProviderResult>;
};

export type Upstream = {
  connect(settings: ProviderSettings): void;
  state(provider: string): ProviderState;
  getPrice(provider: string, model: string): ModelView['price'];
  plan(ask: ModelInput, model: ResolvedModel, routes: readonly ModelRoute[]): RoutePlan;
  close(): void;
};

/** An artifact's text, for `input_ref`. */
export type ReadArtifact = (
  id: string,
  runId: string | null,
) => Promise<{ text: string; labels: Message['labels'] }>;

export type { DialectName, ResponseEvent };
