// Calls to providers over HTTP: what a call needs, what it gives, and the sockets that outlive it.
// Knows no retry, no route and no budget; the call itself is in provider-attempt.ts.
import type { Clock } from '../../../platform/clock.ts';
import type { Fault } from '../../../wire/errors.ts';
import type { DialectName } from './dialect.ts';
import { Attempt } from './provider-attempt.ts';
import { makePools, parseTarget, type Target } from './provider-target.ts';
import type { UpstreamBody } from './upstream-body.ts';

export type Provider = {
  name: string;
  dialect: DialectName;
  baseUrl: string;
  /** Gives the key, or undefined for a server that wants none. */
  readKey(): string | undefined;
  /** Fixed headers from the configuration, such as an organization. */
  headers?: Record<string, string>;
};

export type ProviderLimits = {
  connectTimeoutMs: number;
  /** Until the headers of the answer; a whole answer is only sent when the model is done. */
  firstByteTimeoutMs: number;
  idleTimeoutMs: number;
  sizeBytesMax: number;
};
/** The configuration has no limit of the size. */
export type CallLimits = Omit<ProviderLimits, 'sizeBytesMax'> & { sizeBytesMax?: number };

const SIZE_BYTES_MAX = 32 * 1024 * 1024;

export type ProviderCall = {
  provider: Provider;
  /** After the base URL; the dialect's chat path when left out. */
  path?: string;
  body: string;
  stream: boolean;
  deadlineMs: number;
  signal?: AbortSignal | undefined;
  /** Headers that belong to the body. */
  headers?: Record<string, string>;
  limits: CallLimits;
};

export type WholeAnswer = {
  headers: Record<string, string>;
  bytes: Buffer;
  json: unknown;
};

export type StreamedAnswer = {
  headers: Record<string, string>;
  body: UpstreamBody;
  /** A fault found while reading, without the key in its words. */
  clean(fault: Fault): Fault;
};

export type ProviderClient = {
  callProvider(call: ProviderCall & { stream: false }): Promise<WholeAnswer>;
  callProvider(call: ProviderCall & { stream: true }): Promise<StreamedAnswer>;
  /** Closes the sockets that wait for another call. */
  close(): void;
};

export function makeProviderClient(options: { clock: Pick<Clock, 'nowMs'> }): ProviderClient {
  const pools = makePools();
  const targets = new Map<string, Target>();
  const targetOf = (provider: Provider): Target => {
    const name = `${provider.dialect} ${provider.baseUrl}`;
    const known = targets.get(name);
    if (known !== undefined) return known;
    const target = parseTarget(provider, pools);
    targets.set(name, target);
    return target;
  };
  const callProvider = async (call: ProviderCall): Promise<WholeAnswer | StreamedAnswer> => {
    const limits = { sizeBytesMax: SIZE_BYTES_MAX, ...call.limits };
    return new Attempt(call, targetOf(call.provider), limits, options.clock).run();
  };
  return {
    callProvider: callProvider as ProviderClient['callProvider'],
    close: () => pools.close(),
  };
}
