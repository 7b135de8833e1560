// Interfaces between the service and the outside; upstream.ts and daemon.ts implement them.
import type { Fault } from '../../../wire/errors.ts';
import type {
  DialectName,
  GenerateRequest,
  Message,
  ModelView,
  ProviderPrice,
} from '../../../wire/modeld.ts';
import type { ModelResponse, ResponseEvent, ResponseObserver } from '../adapters/dialect.ts';
import type { CostBound } from '../rules/budget.ts';
import type { EmbedInput } from '../rules/client-embeddings.ts';
import type { ModelRoute, ResolvedModel } from '../rules/models.ts';

/** A provider's settings. The key is only reachable through `readKey`. */
export type ProviderSettings = {
  name: string;
  dialect: DialectName;
  baseUrl: string;
  readKey(): string | undefined;
  concurrency: number;
  requestsPerMinute: number | undefined;
  tokensPerMinute: number | undefined;
  maxTokensField: 'max_completion_tokens' | 'max_tokens' | undefined;
  /** The operator's price for all its models, in USD per million tokens. */
  price?: ProviderPrice | undefined;
  timeouts: { connectMs: number; firstByteMs: number; idleMs: number; totalMs: number };
};

export type ProviderState = { inFlight: number; available: boolean; reason?: string };

/** The input of a call: neutral, a vendor's body unchanged, or texts to embed. */
export type ModelInput =
  | { form: 'neutral'; request: GenerateRequest; messages: Message[] }
  | {
      form: 'client';
      dialect: DialectName;
      text: string;
      body: Record<string, unknown>;
      /** The caller's own headers that concern the provider. */
      headers: Readonly<Record<string, string>>;
      callId: string;
    }
  /** An Anthropic client asks how many tokens its body has. */
  | {
      form: 'count';
      text: string;
      body: Record<string, unknown>;
      headers: Readonly<Record<string, string>>;
    }
  | { form: 'embed'; input: EmbedInput[]; dimensions?: number | undefined };

/** Counts of a call's tries, updated while they run, so that a failure can be charged. */
export type TryStats = {
  count: number;
  /** Tries without a response that the provider may bill nevertheless. */
  lost: number;
  chain: string[];
};

export type UpstreamOptions = {
  outputTokensMax: number;
  /** False when nothing limits the output, so that a client's body is sent unchanged. */
  isLimited: boolean;
  tokensReserved: number;
  totalMs: number;
  signal: AbortSignal;
  tries: TryStats;
  /** Runs before every try: reserves for one more when an earlier one may be billed. */
  beforeTry(): Promise<void>;
  observer?: ResponseObserver | undefined;
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

/** A call that a provider has responded to, or started to. */
export type ProviderResult = {
  route: ModelRoute;
  ended: Promise<ModelResult>;
  output: ModelOutput;
};

export type RoutePlan = {
  bound: CostBound;
  /** A guess, for limits where the bound would be too strict. */
  inputTokensGuess: number;
  /** Returns the cost of the actual usage at the route that responded. */
  computeCost(
    route: ModelRoute,
    response: Pick<ModelResponse, 'usage' | 'cacheWriteLongTokens'>,
  ): number;
  /** Calls the provider, with retries and further routes. */
  run(options: UpstreamOptions): Promise<ProviderResult>;
};

export type Upstream = {
  connect(settings: ProviderSettings): void;
  /** Calls in flight end by themselves; later ones are refused. */
  disconnect(provider: string): void;
  state(provider: string): ProviderState;
  getPrice(provider: string, model: string): ModelView['price'];
  plan(ask: ModelInput, model: ResolvedModel, routes: readonly ModelRoute[]): RoutePlan;
  /** Guesses the input tokens of an Anthropic body, where no provider counts them. */
  estimateInputTokens(body: Record<string, unknown>): number;
  close(): void;
};

/** Resolves to an artifact's text and labels, for `input_ref`. */
export type ReadArtifact = (
  id: string,
  runId: string | null,
) => Promise<{ text: string; labels: Message['labels'] }>;

/**
 * Has agentd check a run's delegation for these tools of the provider and mark its task, before
 * the provider fetches anything.
 */
export type RecordFetches = (call: {
  runId: string;
  fence: number;
  callId: string;
  tools: readonly string[];
  hosts: readonly string[];
}) => Promise<unknown>;

export type { ResponseEvent, ResponseObserver };
