// Prepares one call for one route: the body in the provider's dialect, the bounds of its usage and
// cost, and the readers of its response. A client of the provider's dialect is passed through.
import type { Clock } from '../../platform/clock.ts';
import { fault } from '../../wire/errors.ts';
import type { DialectName, Usage } from '../../wire/modeld.ts';
import {
  assistantMessage,
  type Dialect,
  type ModelResponse,
  type WrittenRequest,
} from './adapters/dialect.ts';
import { dialects } from './adapters/dialects.ts';
import { type ModelRequest, toModelRequest } from './adapters/model-request.ts';
import { EMBED_PATH, readEmbedResponse, writeEmbedRequest } from './adapters/openai/embed.ts';
import { passRequest, passStream, tapResponse } from './adapters/passthrough.ts';
import {
  boundMicrousd,
  makePriceRow,
  type PriceBook,
  type PriceRow,
  readSurcharge,
} from './adapters/prices.ts';
import type { StreamedResponse, WholeResponse } from './adapters/provider-client.ts';
import { startEvents, startTranslation } from './adapters/stream-response.ts';
import { boundEmbedTokens, boundInputTokens } from './adapters/tokens.ts';
import { NO_USAGE } from './rules/budget.ts';
import { type ModelRoute, REHEARSAL, type ResolvedModel } from './rules/models.ts';
import type {
  ModelInput,
  ProviderResult,
  ProviderSettings,
  ResponseObserver,
  UpstreamOptions,
} from './service/ports.ts';

type ReadResult = Omit<ProviderResult, 'route'>;
export type PreparedRequest = {
  dialect: DialectName;
  path?: string;
  body: string;
  headers: Record<string, string>;
  stream: boolean;
  readWhole(response: WholeResponse): ReadResult;
  readStream(upstream: StreamedResponse): Promise<ReadResult>;
};

export type PreparedRoute = {
  inputTokens: number;
  inputTokensGuess: number;
  outputTokensWanted: number;
  /** A lower limit would be refused by the provider. */
  outputTokensMin?: number | undefined;
  price: PriceRow;
  times: number;
  boundCost(inputTokens: number, outputTokens: number): number;
  makeRequest(
    run: Pick<UpstreamOptions, 'outputTokensMax' | 'isLimited' | 'observer'> & {
      /** A response that nobody asked to be streamed may be, to show it. */
      prefersStream: boolean;
    },
  ): PreparedRequest;
};

export type Preparation = {
  input: ModelInput;
  model: ResolvedModel;
  route: ModelRoute;
  settings: ProviderSettings;
  prices: PriceBook;
  clock: Pick<Clock, 'nowMs'>;
};

/** Larger than any existing window: the bound for a model with an unknown window. */
const UNKNOWN_WINDOW_TOKENS = 4_000_000;
const BYTES_PER_TOKEN_GUESS = 4;

export function prepare(p: Preparation): PreparedRoute {
  const { input: ask } = p;
  if (ask.form === 'embed') return prepareEmbed(p, ask);
  if (ask.form === 'count') return prepareCount(p, ask);
  const dialect = dialects[chooseDialect(p.settings, ask)];
  if (ask.form === 'neutral')
    return prepareNeutral(p, dialect, toModelRequest(ask.request, ask.messages));
  return ask.dialect === dialect.name
    ? preparePassthrough(p, dialect, ask)
    : prepareTranslated(p, dialect, ask);
}

/** The rehearsal speaks every dialect, so that all clients are passed through. */
function chooseDialect(settings: ProviderSettings, ask: ModelInput): DialectName {
  if (settings.name !== REHEARSAL) return settings.dialect;
  return ask.form === 'client' ? ask.dialect : 'anthropic';
}

type Costs = Pick<
  PreparedRoute,
  'inputTokens' | 'inputTokensGuess' | 'outputTokensWanted' | 'price' | 'times' | 'boundCost'
>;

/** The operator's price for this provider takes precedence. */
export function findPrice(
  prices: PriceBook,
  { name, price }: Pick<ProviderSettings, 'name' | 'price'>,
  model: string,
) {
  return price === undefined
    ? prices.find(name, model)
    : { ...makePriceRow(model, price), isKnown: true };
}

function makeCosts(
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

function getWindow(model: ResolvedModel): number {
  return model.isExact ? model.contextTokens : UNKNOWN_WINDOW_TOKENS;
}

function computeWantedOutput(model: ResolvedModel, requested: number | undefined): number {
  if (requested === undefined || !Number.isFinite(requested)) return model.maxOutputTokens;
  const wanted = Math.max(1, Math.floor(requested));
  return model.isExact ? Math.min(wanted, model.maxOutputTokens) : wanted;
}

type Reading = {
  readers(
    written: WrittenRequest,
    observer: ResponseObserver | undefined,
  ): Pick<PreparedRequest, 'readWhole' | 'readStream'>;
  /** A stream is read to its end before the caller gets the response, unless it asked for one. */
  isWholeAnyway?: true;
};

/** Writes a neutral request, and again when the output limit is lower than wanted. */
function prepareWritten(
  p: Preparation,
  dialect: Dialect,
  request: ModelRequest,
  { readers, isWholeAnyway }: Reading,
): PreparedRoute {
  const wanted = computeWantedOutput(p.model, request.maxOutputTokens);
  const write = (maxOutputTokens: number, stream = request.stream) => {
    const written = dialect.writeRequest(request, {
      provider: p.route.provider,
      model: p.route.model,
      maxOutputTokens,
      stream,
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
    contextTokens: getWindow(p.model),
  });
  return {
    ...makeCosts(p, { inputTokens, sizeBytes, outputTokensWanted: wanted }),
    makeRequest({ outputTokensMax, observer, prefersStream }) {
      const stream = request.stream || (isWholeAnyway === true && prefersStream);
      const isFirst = outputTokensMax >= wanted && stream === request.stream;
      const written = isFirst ? first : write(Math.min(outputTokensMax, wanted), stream);
      return {
        dialect: dialect.name,
        body: written.text,
        headers: written.headers,
        stream,
        ...readers(written, observer),
      };
    },
  };
}

function prepareNeutral(p: Preparation, dialect: Dialect, request: ModelRequest): PreparedRoute {
  const { provider } = p.route;
  const readers: Reading['readers'] = ({ names }, observer) => ({
    readWhole: ({ json }) => ({
      ended: Promise.resolve({ response: dialect.readResponse(json, names) }),
      output: { type: 'answer' },
    }),
    async readStream(upstream) {
      const reader = dialect.readStream(names);
      const { items, ended } = await startEvents({ upstream, reader, provider, observer });
      if (request.stream) return { ended, output: { type: 'events', items } };
      // Like a whole response: one that breaks off is tried again.
      for await (const _ of items);
      const end = await ended;
      if (end.fault !== undefined) throw end.fault;
      return { ended, output: { type: 'answer' } };
    },
  });
  return prepareWritten(p, dialect, request, { readers, isWholeAnyway: true });
}

type ClientInput = Extract<ModelInput, { form: 'client' }>;

function prepareTranslated(p: Preparation, dialect: Dialect, ask: ClientInput): PreparedRoute {
  const client = dialects[ask.dialect];
  const request = client.readRequest(ask.body);
  const meta = {
    id: ask.callId,
    model: request.model,
    createdMs: p.clock.nowMs(),
    request,
    ...(request.streamUsage === undefined ? {} : { streamUsage: request.streamUsage }),
  };
  const { provider } = p.route;
  const readers: Reading['readers'] = ({ names, dropped = [] }, observer) => {
    const lost = listDropped([...(request.dropped ?? []), ...dropped]);
    return {
      readWhole({ json }) {
        const response = dialect.readResponse(json, names);
        const body = JSON.stringify(client.writeResponse(response, meta));
        const output = { type: 'bytes', headers: { ...JSON_HEADERS, ...lost }, body } as const;
        return { ended: Promise.resolve({ response }), output };
      },
      async readStream(upstream) {
        const reader = dialect.readStream(names);
        const writer = client.writeStream(meta);
        const reading = { upstream, reader, provider, observer };
        const { items, ended } = await startTranslation({ ...reading, writer, client });
        return { ended, output: { type: 'stream', headers: { ...SSE_HEADERS, ...lost }, items } };
      },
    };
  };
  return prepareWritten(p, dialect, request, { readers });
}

const DROPPED_LENGTH_MAX = 1_000;

/** Names what the provider did not get; the names come from the client. */
function listDropped(names: readonly string[]): Record<string, string> {
  if (names.length === 0) return {};
  const safe = [...new Set(names)].map((name) => name.replace(/[^\w.[\]-]/g, '_'));
  return { 'agentd-dropped': safe.join(', ').slice(0, DROPPED_LENGTH_MAX) };
}

const JSON_HEADERS = { 'content-type': 'application/json' };
const SSE_HEADERS = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };

function preparePassthrough(p: Preparation, dialect: Dialect, ask: ClientInput): PreparedRoute {
  const { body, text } = ask;
  dialect.assertSelfContained?.(body);
  const { provider, model } = p.route;
  const own = dialect.readOutputLimit(body);
  const choices = Math.max(1, Math.floor(own.choices));
  const perChoiceMin = Math.min(own.tokensMin ?? 0, own.tokens ?? Number.POSITIVE_INFINITY);
  const perChoice = Math.max(computeWantedOutput(p.model, own.tokens), perChoiceMin);
  const sizeBytes = Buffer.byteLength(text);
  const inputTokens = boundInputTokens({
    body,
    sizeBytes,
    dialect: dialect.name,
    contextTokens: getWindow(p.model),
  });
  const times = readSurcharge(dialect.name, body);
  return {
    ...makeCosts(p, {
      inputTokens,
      sizeBytes,
      outputTokensWanted: perChoice * choices,
      times,
    }),
    outputTokensMin: perChoiceMin * choices,
    makeRequest({ outputTokensMax, isLimited, observer }) {
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
        headers: dialect.passHeaders(body, ask.headers),
        stream: passed.stream,
        readWhole: (response) => ({
          ended: Promise.resolve({ response: tapResponse({ dialect, response, model, provider }) }),
          output: { type: 'bytes', headers: response.headers, body: response.bytes },
        }),
        async readStream(upstream) {
          const { hidesUsage } = passed;
          const tap = { dialect, upstream, model, provider, hidesUsage, observer };
          const { items, ended } = await passStream(tap);
          const headers = { ...SSE_HEADERS, ...upstream.headers };
          return { ended, output: { type: 'stream', headers, items } };
        },
      };
    },
  };
}

/** Free at the vendor, so that nothing is reserved for it. */
function prepareCount(
  p: Preparation,
  { text, body, headers }: Extract<ModelInput, { form: 'count' }>,
): PreparedRoute {
  const { model } = p.route;
  const dialect = dialects.anthropic;
  return {
    ...makeCosts(p, { inputTokens: 0, sizeBytes: 0, outputTokensWanted: 0 }),
    makeRequest: () => ({
      dialect: dialect.name,
      path: `${dialect.chatPath}/count_tokens`,
      body: passRequest({ dialect, text, body, model }).text,
      headers: dialect.passHeaders(body, headers),
      stream: false,
      readWhole: ({ headers, bytes }) => ({
        ended: Promise.resolve({ response: makeTextlessResponse(model, NO_USAGE) }),
        output: { type: 'bytes', headers, body: bytes },
      }),
      readStream: () => {
        throw new Error('counts are never streamed');
      },
    }),
  };
}

function makeTextlessResponse(model: string, usage: Usage, usageReported = true): ModelResponse {
  return {
    id: '',
    model,
    message: assistantMessage([]),
    stopReason: 'end',
    usage,
    usageReported,
    cacheWriteLongTokens: 0,
  };
}

function prepareEmbed(p: Preparation, ask: Extract<ModelInput, { form: 'embed' }>): PreparedRoute {
  const { input } = ask;
  const { provider, model } = p.route;
  const hasEmbeddings = p.settings.name === REHEARSAL || p.settings.dialect !== 'anthropic';
  if (!hasEmbeddings)
    throw fault('unavailable', `provider ${provider} has no embeddings`, {
      hint: 'Map the name to a provider of the OpenAI dialect.',
    });
  const body = JSON.stringify(writeEmbedRequest(ask, model));
  const inputTokens = boundEmbedTokens(input);
  return {
    ...makeCosts(p, { inputTokens, sizeBytes: Buffer.byteLength(body), outputTokensWanted: 0 }),
    makeRequest: () => ({
      dialect: 'openai',
      path: EMBED_PATH,
      body,
      headers: {},
      stream: false,
      readWhole({ json }) {
        const read = readEmbedResponse(json, { count: input.length, model });
        const response = makeTextlessResponse(read.model, read.usage, read.usageReported);
        return {
          ended: Promise.resolve({ response }),
          output: { type: 'embeddings', embeddings: read.embeddings },
        };
      },
      readStream: () => {
        throw new Error('embeddings are never streamed');
      },
    }),
  };
}
