// Calls providers over HTTP and turns every failure into a fault. The key is read once per call and
// sent in one header only. Retries, routes and budgets are handled elsewhere.
import type { Clock } from '../../../platform/clock.ts';
import type { ClientCall, ResponseHandler } from '../../../platform/http1/client.ts';
import { isSendable, type ResponseHead, writeHeaders } from '../../../platform/http1/head.ts';
import { parseJson } from '../../../platform/json.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { DialectName } from '../../../wire/modeld.ts';
import { dialects } from './dialects.ts';
import { makePools, type ProviderTarget, parseTarget } from './provider-target.ts';
import { silentFault, tooLongFault, UpstreamBody } from './upstream-body.ts';
import { readRetryAfterMs, readVendorError, scrub, vendorFault } from './vendor-faults.ts';

export type Provider = {
  name: string;
  dialect: DialectName;
  baseUrl: string;
  /** Returns undefined for a server that needs no key. */
  readKey(): string | undefined;
};

export type ProviderLimits = {
  connectTimeoutMs: number;
  /** Until the response headers; a whole response is only sent when the model has finished. */
  firstByteTimeoutMs: number;
  idleTimeoutMs: number;
  sizeBytesMax: number;
};
export type CallLimits = Omit<ProviderLimits, 'sizeBytesMax'> & { sizeBytesMax?: number };

const SIZE_BYTES_MAX = 32 * 1024 * 1024;

/** `details.reason` of a `provider_down` fault that a timeout caused. */
export type TimeoutReason = 'connect_timeout' | 'response_timeout';

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

export type WholeResponse = {
  headers: Record<string, string>;
  bytes: Buffer;
  json: unknown;
};

export type StreamedResponse = {
  headers: Record<string, string>;
  body: UpstreamBody;
  /** Removes the key from a fault. */
  scrub(fault: Fault): Fault;
};

export type ProviderClient = {
  callProvider(call: ProviderCall & { stream: false }): Promise<WholeResponse>;
  callProvider(call: ProviderCall & { stream: true }): Promise<StreamedResponse>;
  /** Closes idle sockets. */
  close(): void;
};

export function makeProviderClient(options: { clock: Pick<Clock, 'nowMs'> }): ProviderClient {
  const pools = makePools();
  const callProvider = async (call: ProviderCall): Promise<WholeResponse | StreamedResponse> => {
    const limits = { sizeBytesMax: SIZE_BYTES_MAX, ...call.limits };
    return new Attempt(call, parseTarget(call.provider, pools), limits, options.clock).run();
  };
  return {
    callProvider: callProvider as ProviderClient['callProvider'],
    close: () => pools.close(),
  };
}

const ERROR_BODY_BYTES_MAX = 64 * 1024;
/** Node fires longer timers immediately. */
const TIMER_MS_MAX = 2 ** 31 - 1;
const HEADERS_KEPT = ['content-type', 'request-id', 'x-request-id'];
const JSON_TYPE = /^application\/(.+\+)?json\b/i;
const SSE_TYPE = /^text\/event-stream\b/i;

type ProviderResponse = WholeResponse | StreamedResponse;

/** One request to a provider. */
class Attempt implements ResponseHandler {
  readonly #call: ProviderCall;
  readonly #target: ProviderTarget;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #limits: ProviderLimits;
  readonly #key: string | undefined;
  #request: ClientCall | undefined;
  #canRepeat = true;
  #head: ResponseHead | undefined;
  /** The body of a whole response. */
  #chunks: Buffer[] = [];
  #sizeBytes = 0;
  #body: UpstreamBody | undefined;
  #isOver = false;
  #resolve: (response: ProviderResponse) => void = () => {};
  #reject: (reason: unknown) => void = () => {};
  #deadlineTimer: NodeJS.Timeout | undefined;
  /** For the connection, the first byte or the next one. */
  #waitTimer: NodeJS.Timeout | undefined;
  readonly #onAbort = (): void => this.#stop(this.#abortFault());

  constructor(
    call: ProviderCall,
    target: ProviderTarget,
    limits: ProviderLimits,
    clock: Pick<Clock, 'nowMs'>,
  ) {
    this.#call = call;
    this.#target = target;
    this.#clock = clock;
    this.#limits = limits;
    this.#key = call.provider.readKey()?.trim();
  }

  run(): Promise<ProviderResponse> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      const { signal, deadlineMs, provider } = this.#call;
      if (signal?.aborted === true) return this.#fail(this.#abortFault());
      signal?.addEventListener('abort', this.#onAbort, { once: true });
      const message = `provider ${provider.name} did not finish in ${deadlineMs} ms`;
      this.#deadlineTimer = this.#after(deadlineMs, () => fault('deadline', message));
      this.#send();
    });
  }

  connected(): void {
    this.#waitFor('firstByteTimeoutMs', 'did not start a response');
  }

  head(head: ResponseHead): void {
    this.#head = head;
    if (head.status !== 200) return;
    const problem = this.#contentFault(head);
    if (problem !== undefined) return void this.#stop(problem);
    if (this.#call.stream) this.#openStream(head);
  }

  data(chunk: Buffer): void {
    if (this.#body !== undefined) return void this.#body.push(chunk);
    this.#sizeBytes += chunk.length;
    const isError = this.#head?.status !== 200;
    const sizeBytesMax = isError ? ERROR_BODY_BYTES_MAX : this.#limits.sizeBytesMax;
    if (this.#sizeBytes <= sizeBytesMax) return void this.#chunks.push(chunk);
    // An error's status is enough; the rest of its body is not needed.
    const reason = isError
      ? this.#statusFault()
      : tooLongFault(this.#call.provider.name, sizeBytesMax);
    this.#stop(reason);
  }

  more(): void {
    if (this.#body !== undefined) return;
    const { name } = this.#call.provider;
    const { idleTimeoutMs } = this.#limits;
    this.#wait(idleTimeoutMs, () => silentFault(name, idleTimeoutMs));
  }

  end(): void {
    if (this.#body !== undefined) return void this.#body.end();
    if (this.#head?.status !== 200) return void this.#fail(this.#statusFault());
    const bytes = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    let json: unknown;
    try {
      json = parseJson(bytes.toString('utf8'));
    } catch (cause) {
      const message = `the provider ${this.#call.provider.name} sent a response that is not JSON`;
      return void this.#fail(fault('provider_malformed', message, { cause }));
    }
    this.#release();
    this.#resolve({ headers: this.#keepHeaders(this.#head), bytes, json });
  }

  fail(cause: NodeJS.ErrnoException, isStale: boolean): void {
    if (this.#body !== undefined) return void this.#body.abort(cause);
    // The server closed an idle socket as it was reused, and has not received the request.
    if (isStale && this.#canRepeat) {
      this.#canRepeat = false;
      return void this.#send();
    }
    if (this.#head === undefined) return void this.#fail(this.#unreachableFault(cause));
    if (this.#head.status !== 200) return void this.#fail(this.#statusFault());
    const message = `the provider ${this.#call.provider.name} closed the connection during its response`;
    this.#fail(fault('provider_malformed', message, { cause }));
  }

  #send(): void {
    const { body } = this.#call;
    const bodyBytes = Buffer.byteLength(body);
    let head: string;
    try {
      head = this.#writeHead(bodyBytes);
    } catch {
      // Without the cause, which would quote the header.
      const message = `the key of provider ${this.#call.provider.name} cannot be sent in a header`;
      return void this.#fail(fault('provider_auth', message));
    }
    this.#waitFor('connectTimeoutMs', 'accepted no connection');
    this.#request = this.#target.pool.send({ method: 'POST', head, body, bodyBytes }, this);
  }

  #writeHead(bodyBytes: number): string {
    const { provider, path, stream, headers } = this.#call;
    const dialect = dialects[provider.dialect];
    const lines = writeHeaders({
      host: this.#target.host,
      'content-type': 'application/json',
      'content-length': bodyBytes,
      accept: stream ? 'text/event-stream' : 'application/json',
      'accept-encoding': 'identity',
      'user-agent': 'agentd-modeld',
      ...headers,
      ...(this.#key === undefined || this.#key === '' ? {} : dialect.authHeaders(this.#key)),
    });
    return `POST ${this.#target.basePath}${path ?? dialect.chatPath} HTTP/1.1\r\n${lines}\r\n`;
  }

  #waitFor(limit: 'connectTimeoutMs' | 'firstByteTimeoutMs', what: string): void {
    const ms = this.#limits[limit];
    const { name } = this.#call.provider;
    const reason: TimeoutReason =
      limit === 'connectTimeoutMs' ? 'connect_timeout' : 'response_timeout';
    this.#wait(ms, () =>
      fault('provider_down', `the provider ${name} ${what} within ${ms} ms`, {
        details: { provider: name, reason },
      }),
    );
  }

  #wait(ms: number, makeFault: () => Fault): void {
    clearTimeout(this.#waitTimer);
    if (!this.#isOver) this.#waitTimer = this.#after(ms, makeFault);
  }

  #after(ms: number, makeFault: () => Fault): NodeJS.Timeout {
    return setTimeout(() => this.#stop(makeFault()), Math.min(ms, TIMER_MS_MAX)).unref();
  }

  #stop(reason: Fault): void {
    if (this.#body !== undefined) return void this.#body.fail(reason);
    this.#request?.destroy();
    this.#fail(reason);
  }

  #fail(reason: Fault): void {
    if (this.#isOver) return;
    this.#release();
    this.#reject(this.#scrubFault(reason));
  }

  #release(): void {
    this.#isOver = true;
    clearTimeout(this.#deadlineTimer);
    clearTimeout(this.#waitTimer);
    this.#call.signal?.removeEventListener('abort', this.#onAbort);
  }

  #openStream(head: ResponseHead): void {
    clearTimeout(this.#waitTimer);
    const body = new UpstreamBody(this.#request!, {
      provider: this.#call.provider.name,
      idleTimeoutMs: this.#limits.idleTimeoutMs,
      sizeBytesMax: this.#limits.sizeBytesMax,
      onEnd: () => this.#release(),
    });
    this.#body = body;
    const clean = (reason: Fault): Fault => this.#scrubFault(reason);
    this.#resolve({ headers: this.#keepHeaders(head), body, scrub: clean });
  }

  #statusFault(): Fault {
    const head = this.#head!;
    const text = Buffer.concat(this.#chunks).toString('utf8');
    let json: unknown;
    try {
      json = parseJson(text);
    } catch {
      json = { message: text.slice(0, 2_000) };
    }
    return vendorFault(readVendorError(json, head.status), {
      provider: this.#call.provider.name,
      key: this.#key,
      retryAfterMs: readRetryAfterMs(head.headers, this.#clock.nowMs()),
    });
  }

  #contentFault({ headers }: ResponseHead): Fault | undefined {
    const { name } = this.#call.provider;
    const type = headers['content-type'] ?? '';
    if (!(this.#call.stream ? SSE_TYPE : JSON_TYPE).test(type)) {
      const got = type === '' ? 'a response without a content type' : scrub(type, this.#key);
      return fault('provider_malformed', `the provider ${name} sent ${got}`);
    }
    const encoding = headers['content-encoding'] ?? 'identity';
    if (encoding === 'identity') return undefined;
    const got = scrub(encoding, this.#key);
    return fault('provider_malformed', `the provider ${name} sent bytes in ${got}, unasked`);
  }

  #keepHeaders({ headers }: ResponseHead): Record<string, string> {
    const kept: Record<string, string> = {};
    for (const name of HEADERS_KEPT) {
      const value = headers[name];
      if (value === undefined || !isSendable(value)) continue;
      const echoes = this.#key !== undefined && this.#key !== '' && value.includes(this.#key);
      if (!echoes) kept[name] = value;
    }
    return kept;
  }

  #abortFault(): Fault {
    const reason: unknown = this.#call.signal?.reason;
    if (reason instanceof Fault) return reason;
    const { name } = this.#call.provider;
    return reason instanceof Error && reason.name === 'TimeoutError'
      ? fault('deadline', `the provider ${name} did not finish in time`)
      : fault('canceled', `the call to provider ${name} was canceled`);
  }

  #unreachableFault(cause: NodeJS.ErrnoException): Fault {
    if (cause instanceof Fault) return cause;
    const { name } = this.#call.provider;
    const code = scrub(cause.code ?? 'no reason given', this.#key);
    return fault('provider_down', `the provider ${name} could not be reached (${code})`, {
      details: { provider: name, reason: code },
    });
  }

  #scrubFault(reason: Fault): Fault {
    const key = this.#key;
    if (key === undefined || key === '') return reason;
    reason.message = reason.message.replaceAll(key, '[key]');
    for (const [name, value] of Object.entries(reason.details ?? {}))
      if (typeof value === 'string') reason.details![name] = value.replaceAll(key, '[key]');
    return reason;
  }
}
