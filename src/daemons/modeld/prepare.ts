// One call made ready for one route: its body in the provider's dialect, the most it may use and
// cost there, and how its answer is read. The same dialect in and out goes through untouched.
import type { Clock } from '../../platform/clock.ts';
import { fault } from '../../wire/errors.ts';
import {
  assistantMessage,
  type Dialect,
  type DialectName,
  type ModelRequest,
  type ModelResponse,
  toModelRequest,
} from './adapters/dialect.ts';
import { dialects } from './adapters/dialects.ts';
import { EMBED_PATH, readEmbedAnswer, writeEmbedRequest } from './adapters/openai/embed.ts';
import { passRequest, passStream, tapAnswer } from './adapters/passthrough.ts';
import {
  boundMicrousd,
  type PriceBook,
  type PriceRow,
  rowOf,
  surchargeOf,
} from './adapters/prices.ts';
import type { StreamedAnswer, WholeAnswer } from './adapters/provider-client.ts';
import { startEvents, startTranslation } from './adapters/stream-response.ts';
import { boundEmbedTokens, boundInputTokens } from './adapters/tokens.ts';
import { type ModelRoute, REHEARSAL, type Resolved } from './rules/models.ts';
import type { ModelInput, Performed, ProviderSettings } from './service/ports.ts';

type Read = Omit<Performed, 'route'>;
export type Sending = {
  dialect: DialectName;
  path?: string;
  body: string;
  headers: Record<string, string>;
  stream: boolean;
  readWhole(answer: WholeAnswer): Read;
  readStream(upstream: StreamedAnswer): Promise<Read>;
};

export type Prepared = {
  inputTokens: number;
  inputTokensGuess: number;
  outputTokensWanted: number;
  price: PriceRow;
  times: number;
  boundCost(inputTokens: number, outputTokens: number): number;
  send(limit: { outputTokensMax: number; isLimited: boolean }): Sending;
};

export type Preparation = {
  ask: ModelInput;
  model: Resolved;
  route: ModelRoute;
  settings: ProviderSettings;
  prices: PriceBook;
  clock: Pick<Clock, 'nowMs'>;
};

/** Larger than any window there is: the bound of a model whose window nobody told us. */
const WINDOW_TOKENS_UNKNOWN = 4_000_000;
const BYTES_PER_TOKEN_GUESS = 4;

export function prepare(p: Preparation): Prepared {
  const { ask } = p;
  if (ask.form === 'embed') return prepareEmbed(p, ask.input);
  const dialect = dialects[dialectFor(p.settings, ask)];
  if (ask.form === 'neutral')
    return prepareNeutral(p, dialect, toModelRequest(ask.request, ask.messages));
  return ask.dialect === dialect.name
    ? preparePassed(p, dialect, ask)
    : prepareTranslated(p, dialect, ask);
}

/** The played model speaks both dialects, so that clients of either are passed through. */
function dialectFor(settings: ProviderSettings, ask: ModelInput): DialectName {
  if (settings.name !== REHEARSAL) return settings.dialect;
  return ask.form === 'client' ? ask.dialect : 'anthropic';
}

type Costs = Pick<
  Prepared,
  'inputTokens' | 'inputTokensGuess' | 'outputTokensWanted' | 'price' | 'times' | 'boundCost'
>;

/** What the operator said of this provider before what anybody says of the model. */
export function findPrice(
  prices: PriceBook,
  { name, price }: Pick<ProviderSettings, 'name' | 'price'>,
  model: string,
) {
  return price === undefined ? prices.find(name, model) : { ...rowOf(model, price), isKnown: true };
}

function costsOf(
  p: Preparation,
  size: { inputTokens: number; sizeBytes: number; outputTokensWanted: number; times?: number },
): Costs {
  const price = findPrice(p.prices, p.settings, p.route.model);
  const times = size.times ?? 1;
  return {
    inputTokens: size.inputTokens,
    inputTokensGuess: Math.ceil(size.sizeBytes / BYTES_PER_TOKEN_GUESS),
    outputTokensWanted: size.outputTokensWanted,
    price,
    times,
    boundCost: (inputTokens, outputTokens) =>
      boundMicrousd(price, { inputTokens, outputTokens, times }),
  };
}

function windowOf(model: Resolved): number {
  return model.isExact ? model.contextTokens : WINDOW_TOKENS_UNKNOWN;
}

function wantedOutput(model: Resolved, asked: number | undefined): number {
  if (asked === undefined || !Number.isFinite(asked)) return model.maxOutputTokens;
  const wanted = Math.max(1, Math.floor(asked));
  return model.isExact ? Math.min(wanted, model.maxOutputTokens) : wanted;
}

type Written = {
  body: string;
  headers: Record<string, string>;
  readers: Pick<Sending, 'readWhole' | 'readStream'>;
};

/** Writing a neutral request, again when the output had to be cut. */
function prepareWritten(
  p: Preparation,
  dialect: Dialect,
  request: ModelRequest,
  readers: (names: Parameters<Dialect['readAnswer']>[1]) => Written['readers'],
): Prepared {
  const wanted = wantedOutput(p.model, request.maxOutputTokens);
  const write = (maxOutputTokens: number) => {
    const written = dialect.writeRequest(request, {
      provider: p.route.provider,
      model: p.route.model,
      maxOutputTokens,
      stream: request.stream,
      maxTokensField: p.settings.maxTokensField,
    });
    return { ...written, text: JSON.stringify(written.body) };
  };
  const first = write(wanted);
  const sizeBytes = Buffer.byteLength(first.text);
  const inputTokens = boundInputTokens({
    body: first.body,
    sizeBytes,
    dialect: dialect.name,
    contextTokens: windowOf(p.model),
  });
  return {
    ...costsOf(p, { inputTokens, sizeBytes, outputTokensWanted: wanted }),
    send({ outputTokensMax }) {
      const { text, headers, names } = outputTokensMax < wanted ? write(outputTokensMax) : first;
      return {
        dialect: dialect.name,
        body: text,
        headers,
        stream: request.stream,
        ...readers(names),
      };
    },
  };
}

function prepareNeutral(p: Preparation, dialect: Dialect, request: ModelRequest): Prepared {
  const { provider } = p.route;
  return prepareWritten(p, dialect, request, (names) => ({
    readWhole: ({ json }) => ({
      ended: Promise.resolve({ answer: dialect.readAnswer(json, names) }),
      output: { type: 'answer' },
    }),
    async readStream(upstream) {
      const reader = dialect.readStream(names);
      const { items, ended } = await startEvents({ upstream, reader, provider });
      return { ended, output: { type: 'events', items } };
    },
  }));
}

type ClientAsk = Extract<ModelInput, { form: 'client' }>;

function prepareTranslated(p: Preparation, dialect: Dialect, ask: ClientAsk): Prepared {
  const client = dialects[ask.dialect];
  const request = client.readRequest(ask.body);
  const meta = {
    id: ask.callId,
    model: request.model,
    createdMs: p.clock.nowMs(),
    ...(request.streamUsage === undefined ? {} : { streamUsage: request.streamUsage }),
  };
  const { provider } = p.route;
  return prepareWritten(p, dialect, request, (names) => ({
    readWhole({ json }) {
      const answer = dialect.readAnswer(json, names);
      const body = JSON.stringify(client.writeAnswer(answer, meta));
      const output = { type: 'bytes', headers: JSON_HEADERS, body } as const;
      return { ended: Promise.resolve({ answer }), output };
    },
    async readStream(upstream) {
      const reader = dialect.readStream(names);
      const writer = client.writeStream(meta);
      const started = await startTranslation({ upstream, reader, provider, writer, client });
      const { items, ended } = started;
      return { ended, output: { type: 'stream', headers: SSE_HEADERS, items } };
    },
  }));
}

const JSON_HEADERS = { 'content-type': 'application/json' };
const SSE_HEADERS = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };

function preparePassed(p: Preparation, dialect: Dialect, ask: ClientAsk): Prepared {
  const { body, text } = ask;
  const { provider, model } = p.route;
  const own = dialect.readOutputLimit(body);
  const choices = Math.max(1, Math.floor(own.choices));
  const perChoice = wantedOutput(p.model, own.tokens);
  const sizeBytes = Buffer.byteLength(text);
  const inputTokens = boundInputTokens({
    body,
    sizeBytes,
    dialect: dialect.name,
    contextTokens: windowOf(p.model),
  });
  const times = surchargeOf(dialect.name, body);
  return {
    ...costsOf(p, {
      inputTokens,
      sizeBytes,
      outputTokensWanted: perChoice * choices,
      times,
    }),
    send({ outputTokensMax, isLimited }) {
      const allowed = Math.max(1, Math.floor(outputTokensMax / choices));
      const isCut = own.tokens === undefined ? isLimited : allowed < own.tokens;
      const passed = passRequest({
        dialect,
        text,
        body,
        model,
        ...(isCut ? { maxOutputTokens: allowed } : {}),
        maxTokensField: p.settings.maxTokensField,
      });
      return {
        dialect: dialect.name,
        body: passed.text,
        headers: dialect.passHeaders(body),
        stream: passed.stream,
        readWhole: (answer) => ({
          ended: Promise.resolve({ answer: tapAnswer({ dialect, answer, model, provider }) }),
          output: { type: 'bytes', headers: answer.headers, body: answer.bytes },
        }),
        async readStream(upstream) {
          const { hidesUsage } = passed;
          const tap = { dialect, upstream, model, provider, hidesUsage };
          const { items, ended } = await passStream(tap);
          const headers = { ...SSE_HEADERS, ...upstream.headers };
          return { ended, output: { type: 'stream', headers, items } };
        },
      };
    },
  };
}

function prepareEmbed(p: Preparation, input: string[]): Prepared {
  const { provider, model } = p.route;
  const isOpenai = p.settings.name === REHEARSAL || p.settings.dialect === 'openai';
  if (!isOpenai)
    throw fault('unavailable', `the provider ${provider} makes no embeddings`, {
      hint: 'Map the name to a provider that speaks the OpenAI dialect.',
    });
  const body = JSON.stringify(writeEmbedRequest({ input }, model));
  const inputTokens = boundEmbedTokens(input);
  return {
    ...costsOf(p, { inputTokens, sizeBytes: Buffer.byteLength(body), outputTokensWanted: 0 }),
    send: () => ({
      dialect: 'openai',
      path: EMBED_PATH,
      body,
      headers: {},
      stream: false,
      readWhole({ json }) {
        const read = readEmbedAnswer(json, { count: input.length, model });
        const answer: ModelResponse = {
          id: '',
          model: read.model,
          message: assistantMessage([]),
          stopReason: 'end',
          usage: read.usage,
          usageReported: read.usageReported,
          cacheWriteLongTokens: 0,
        };
        return {
          ended: Promise.resolve({ answer }),
          output: { type: 'embeddings', embeddings: read.embeddings },
        };
      },
      readStream: () => {
        throw new Error('embeddings are never streamed');
      },
    }),
  };
}
