// One call to one provider: headers and key out, bytes in, and every way it can go wrong as a
// fault. The key is read once per call and goes into one header only.
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Clock } from '../../../platform/clock.ts';
import { parseJson } from '../../../platform/json.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import { dialects } from './dialects.ts';
import type {
  ProviderCall,
  ProviderLimits,
  StreamedAnswer,
  WholeAnswer,
} from './provider-client.ts';
import type { Target } from './provider-target.ts';
import { UpstreamBody } from './upstream-body.ts';
import { readRetryAfterMs, readVendorError, scrub, vendorFault } from './vendor-faults.ts';

const ERROR_BODY_BYTES_MAX = 64 * 1024;
/** Longer timers fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
const HEADERS_KEPT = ['content-type', 'request-id', 'x-request-id'];

/** The state of one call: what is waited for now, and how to stop it. */
export class Attempt {
  #call: ProviderCall;
  #target: Target;
  #clock: Pick<Clock, 'nowMs'>;
  #limits: ProviderLimits;
  #key: string | undefined;
  #sizeBytes: number;
  #request: ClientRequest | undefined;
  #body: UpstreamBody | undefined;
  #stopped: Fault | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #phase: NodeJS.Timeout | undefined;
  #onAbort = (): void => this.#stop(this.#abortFault());

  constructor(
    call: ProviderCall,
    target: Target,
    limits: ProviderLimits,
    clock: Pick<Clock, 'nowMs'>,
  ) {
    this.#call = call;
    this.#target = target;
    this.#clock = clock;
    this.#limits = limits;
    this.#key = call.provider.readKey()?.trim();
    this.#sizeBytes = Buffer.byteLength(call.body);
  }

  async run(): Promise<WholeAnswer | StreamedAnswer> {
    const { signal, deadlineMs, provider } = this.#call;
    if (signal?.aborted === true) throw this.#abortFault();
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    this.#deadline = setTimeout(
      () => {
        this.#stop(
          fault('deadline', `the provider ${provider.name} was not done in ${deadlineMs} ms`),
        );
      },
      Math.min(deadlineMs, TIMER_MS_MAX),
    ).unref();
    try {
      const response = await this.#send(true);
      if (response.statusCode !== 200) throw await this.#readError(response);
      this.#assertContent(response);
      const answer = this.#call.stream
        ? this.#openStream(response)
        : await this.#readWhole(response);
      return answer;
    } catch (error) {
      this.#release();
      this.#request?.destroy();
      throw error instanceof Fault ? this.#clean(error) : error;
    }
  }

  #send(mayRepeat: boolean): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const request = this.#makeRequest();
      this.#request = request;
      request.on('response', (response) => {
        clearTimeout(this.#phase);
        resolve(response);
      });
      request.on('error', (cause: NodeJS.ErrnoException) => {
        clearTimeout(this.#phase);
        if (this.#stopped !== undefined) return reject(this.#stopped);
        // The server closed a kept socket just as it was used: it has not seen the request.
        const isStale = cause.code === 'ECONNRESET' || cause.code === 'EPIPE';
        if (mayRepeat && request.reusedSocket && isStale) resolve(this.#send(false));
        else reject(this.#unreachable(cause));
      });
      request.on('socket', (socket) => {
        if (!socket.connecting) return this.#waitFor('firstByteTimeoutMs', 'began no answer');
        this.#waitFor('connectTimeoutMs', 'took no connection');
        const ready = 'encrypted' in socket ? 'secureConnect' : 'connect';
        socket.once(ready, () => this.#waitFor('firstByteTimeoutMs', 'began no answer'));
      });
      request.end(this.#call.body);
    });
  }

  #makeRequest(): ClientRequest {
    const { provider, path, stream, headers } = this.#call;
    const dialect = dialects[provider.dialect];
    try {
      return this.#target.request({
        ...this.#target.options,
        method: 'POST',
        path: `${this.#target.basePath}${path ?? dialect.chatPath}`,
        headers: {
          'content-type': 'application/json',
          'content-length': this.#sizeBytes,
          accept: stream ? 'text/event-stream' : 'application/json',
          'accept-encoding': 'identity',
          'user-agent': 'agentd-modeld',
          ...provider.headers,
          ...headers,
          ...(this.#key === undefined || this.#key === '' ? {} : dialect.authHeaders(this.#key)),
        },
      });
    } catch {
      // The cause would quote the header, so it is left out.
      throw fault(
        'provider_auth',
        `the key of provider ${provider.name} cannot be sent in a header`,
      );
    }
  }

  #waitFor(limit: 'connectTimeoutMs' | 'firstByteTimeoutMs', what: string): void {
    clearTimeout(this.#phase);
    const ms = this.#limits[limit];
    this.#phase = setTimeout(() => {
      const { name } = this.#call.provider;
      this.#stop(fault('provider_down', `the provider ${name} ${what} within ${ms} ms`));
    }, ms).unref();
  }

  #stop(reason: Fault): void {
    if (this.#stopped !== undefined) return;
    this.#stopped = reason;
    this.#body?.fail(reason);
    this.#request?.destroy(reason);
  }

  #release(): void {
    clearTimeout(this.#deadline);
    clearTimeout(this.#phase);
    this.#call.signal?.removeEventListener('abort', this.#onAbort);
  }

  #readBody(response: IncomingMessage, sizeBytesMax: number): UpstreamBody {
    const body = new UpstreamBody(response, {
      provider: this.#call.provider.name,
      idleTimeoutMs: this.#limits.idleTimeoutMs,
      sizeBytesMax,
      onOver: () => this.#release(),
    });
    this.#body = body;
    if (this.#stopped !== undefined) body.fail(this.#stopped);
    return body;
  }

  #openStream(response: IncomingMessage): StreamedAnswer {
    return {
      headers: this.#keepHeaders(response),
      body: this.#readBody(response, this.#limits.sizeBytesMax),
      clean: (reason) => this.#clean(reason),
    };
  }

  async #readWhole(response: IncomingMessage): Promise<WholeAnswer> {
    const chunks: Buffer[] = [];
    for await (const chunk of this.#readBody(response, this.#limits.sizeBytesMax))
      chunks.push(chunk);
    const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
    let json: unknown;
    try {
      json = parseJson(bytes.toString('utf8'));
    } catch (cause) {
      const { name } = this.#call.provider;
      throw fault('provider_malformed', `the provider ${name} sent an answer that is not JSON`, {
        cause,
      });
    }
    return { headers: this.#keepHeaders(response), bytes, json };
  }

  async #readError(response: IncomingMessage): Promise<Fault> {
    const status = response.statusCode ?? 0;
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of this.#readBody(response, ERROR_BODY_BYTES_MAX)) chunks.push(chunk);
    } catch {
      if (this.#stopped !== undefined) return this.#stopped;
      // The status says enough; a broken error body adds nothing.
    }
    const text = Buffer.concat(chunks).toString('utf8');
    let json: unknown;
    try {
      json = parseJson(text);
    } catch {
      json = { message: text.slice(0, 2_000) };
    }
    return vendorFault(readVendorError(json, status), {
      provider: this.#call.provider.name,
      key: this.#key,
      retryAfterMs: readRetryAfterMs(response.headers, this.#clock.nowMs()),
    });
  }

  #assertContent(response: IncomingMessage): void {
    const { name } = this.#call.provider;
    const type = response.headers['content-type'] ?? '';
    const wanted = this.#call.stream ? /^text\/event-stream\b/i : /^application\/(.+\+)?json\b/i;
    if (!wanted.test(type)) {
      const got = type === '' ? 'an answer of no stated type' : scrub(type, this.#key);
      throw fault('provider_malformed', `the provider ${name} sent ${got}`);
    }
    const encoding = response.headers['content-encoding'] ?? 'identity';
    if (encoding !== 'identity') {
      const got = scrub(encoding, this.#key);
      throw fault('provider_malformed', `the provider ${name} sent bytes in ${got}, unasked`);
    }
  }

  #keepHeaders(response: IncomingMessage): Record<string, string> {
    const kept: Record<string, string> = {};
    for (const name of HEADERS_KEPT) {
      const value = response.headers[name];
      if (typeof value !== 'string') continue;
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
      ? fault('deadline', `the provider ${name} was not done in time`)
      : fault('canceled', `the call to provider ${name} was canceled`);
  }

  #unreachable(cause: NodeJS.ErrnoException): Fault {
    if (cause instanceof Fault) return cause;
    const { name } = this.#call.provider;
    const code = scrub(cause.code ?? 'no reason given', this.#key);
    return fault('provider_down', `the provider ${name} could not be reached (${code})`, {
      details: { provider: name, reason: code },
    });
  }

  #clean(reason: Fault): Fault {
    const key = this.#key;
    if (key === undefined || key === '') return reason;
    reason.message = reason.message.replaceAll(key, '[key]');
    for (const [name, value] of Object.entries(reason.details ?? {}))
      if (typeof value === 'string') reason.details![name] = value.replaceAll(key, '[key]');
    return reason;
  }
}
