// Tests models by trying them: what each route of a name can do, with one small call for each
// ability.
import type { Caller } from '../../../wire/caller.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { AbilityName, AbilityView, ModelTest, RouteTest } from '../../../wire/modeld.ts';
import { guessKind, type ModelKind, type ModelRoute, REHEARSAL } from '../rules/models.ts';
import type { ClientResponse, makeClientCalls } from './client-calls.ts';
import type { Embed } from './embed.ts';
import type { CallDeadline, Generate } from './generate.ts';
import type { Providers } from './providers.ts';

export type ModelTestDeps = {
  providers: Providers;
  generate: Generate;
  embed: Embed;
  clients: ReturnType<typeof makeClientCalls>;
  nowMs(): number;
};

type TestedRoute = ModelRoute & { kind: ModelKind };
/** A result, or a fault that says why there is none. */
type Probe = () => Promise<Omit<AbilityView, 'ability'>>;

const PURPOSE = 'model test';
const ROUTES_TESTED_MAX = 8;
const OUTPUT_TOKENS = 32;
/** A tool call has its arguments as well. */
const TOOL_OUTPUT_TOKENS = 256;
const ABILITIES: readonly AbilityName[] = [
  'chat',
  'streaming',
  'tools',
  'images',
  'responses',
  'count_tokens',
  'embeddings',
];
const TOOL = {
  name: 'report_colour',
  description: 'Reports a colour.',
  input_schema: { type: 'object', properties: { colour: { type: 'string' } } },
};
/** 16 by 16 pixels, all red. */
const RED_PNG =
  'iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR42mP4z8BAEmIY1TCqYfhqAACQ+f8B8u7oVwAAAABJRU5ErkJggg==';

/** Tests every route of a model, or the first models of a provider. */
export async function testModel(
  deps: ModelTestDeps,
  caller: Caller,
  name: string,
  patience: CallDeadline,
): Promise<ModelTest> {
  const tests: (RouteTest & { tookMs: number })[] = [];
  for (const route of chooseRoutes(deps.providers, name))
    tests.push(await testRoute(deps, { caller, route, patience }));
  const best = tests.find(({ ok }) => ok) ?? tests[0]!;
  return {
    ok: tests.every(({ ok }) => ok),
    provider: best.provider,
    model: best.model,
    latency_ms: Math.round(best.tookMs),
    rehearsal: best.provider === REHEARSAL,
    message: tests
      .map(({ provider, model, ok, message }) => {
        return `${provider}/${model}: ${ok ? 'ok' : 'failed'}, ${message}`;
      })
      .join('\n'),
    routes: tests.map(({ tookMs: _, ...test }) => test),
  };
}

function chooseRoutes(providers: Providers, name: string): TestedRoute[] {
  if (name === REHEARSAL) return chooseRoutes(providers, 'rehearsal-large');
  if (providers.has(name)) {
    const models = providers.getModels(name).slice(0, ROUTES_TESTED_MAX);
    if (models.length === 0)
      throw fault('not_found', `provider ${name} has no models`, {
        hint: `agentctl model add ${name} --model MODEL`,
      });
    return models.map((model) => ({ provider: name, model, kind: guessKind(model) }));
  }
  if (!providers.isOffered(name)) throw providers.unknownModelFault(name);
  const kind = providers.getKind(name);
  return providers.resolve(name, kind).model.routes.map((route) => ({ ...route, kind }));
}

type RouteTestOptions = { caller: Caller; route: TestedRoute; patience: CallDeadline };

async function testRoute(
  deps: ModelTestDeps,
  options: RouteTestOptions,
): Promise<RouteTest & { tookMs: number }> {
  const { provider, model, kind } = options.route;
  const probes = kind === 'chat' ? makeProbes(deps, options) : embedProbes(deps, options);
  const main: AbilityName = kind === 'chat' ? 'chat' : 'embeddings';
  const startedMs = deps.nowMs();
  const first = await tryAbility(main, probes[main]);
  const tookMs = deps.nowMs() - startedMs;
  const ok = first.result === 'yes';
  const rest = ABILITIES.filter((ability) => ability !== main).map((ability) =>
    ok ? tryAbility(ability, probes[ability]) : untried(ability, `${main} failed`),
  );
  const all = [first, ...(await Promise.all(rest))];
  const abilities = ABILITIES.map((name) => all.find(({ ability }) => ability === name)!);
  return { provider, model, kind, ok, message: first.message, abilities, tookMs };
}

const untried = (ability: AbilityName, message: string): AbilityView => ({
  ability,
  result: 'untried',
  message,
});

async function tryAbility(ability: AbilityName, probe: Probe | undefined): Promise<AbilityView> {
  if (probe === undefined) return untried(ability, 'not for this kind of model');
  try {
    return { ability, ...(await probe()) };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { ability, result: 'no', message: error.message };
  }
}

const yes = (message: string) => ({ result: 'yes' as const, message });

type Probes = Partial<Record<AbilityName, Probe>>;

function makeProbes(deps: ModelTestDeps, { caller, route, patience }: RouteTestOptions): Probes {
  const { clients, generate, providers } = deps;
  const { provider } = route;
  const model = nameRoute(route);
  const dialect = provider === REHEARSAL ? 'responses' : providers.getDialect(provider);
  const send = (more: object): Promise<ClientResponse> =>
    clients.callAsClient(caller, 'anthropic', makeBody({ model, ...more }), patience);
  const embedding =
    provider === REHEARSAL
      ? 'rehearsal-embed'
      : providers.getModels(provider).find((name) => guessKind(name) === 'embedding');
  return {
    async chat() {
      const messages = [
        {
          role: 'user' as const,
          parts: [{ type: 'text' as const, text: 'Answer with the word ok.' }],
        },
      ];
      const limits = { max_output_tokens: OUTPUT_TOKENS };
      const body = { model, messages, limits, purpose: PURPOSE };
      const made = await generate.generate(caller, body, patience);
      if (!('response' in made)) return yes('answered');
      const { parts } = made.response.message;
      return yes(`answered ${quote(parts.find((part) => part.type === 'text')?.text ?? '')}`);
    },
    async streaming() {
      const pieces = countPieces(await readText(await send({ stream: true })));
      return pieces > 0 ? yes(`${pieces} pieces`) : { result: 'no', message: 'an empty stream' };
    },
    async tools() {
      const choice = {
        tools: [TOOL],
        tool_choice: { type: 'any' },
        max_tokens: TOOL_OUTPUT_TOKENS,
      };
      const { calls } = readAnswer(await readText(await send(choice)));
      return calls > 0 ? yes('called it') : { result: 'no', message: 'did not call the tool' };
    },
    async images() {
      const source = { type: 'base64', media_type: 'image/png', data: RED_PNG };
      const content = [
        { type: 'image', source },
        { type: 'text', text: 'Which colour is this? Answer with one word.' },
      ];
      const { text } = readAnswer(
        await readText(await send({ messages: [{ role: 'user', content }] })),
      );
      return yes(`answered ${quote(text)}`);
    },
    responses: async () =>
      dialect === 'responses'
        ? yes('it speaks the Responses API')
        : { result: 'translated', message: `it speaks ${dialect}` },
    async count_tokens() {
      const { headers, body } = await clients.countTokens(
        caller,
        // The vendor refuses a limit here.
        makeBody({ model, max_tokens: undefined }),
        patience,
      );
      const { input_tokens } = JSON.parse(String(body)) as { input_tokens: number };
      const result = headers['agentd-estimate'] === undefined ? 'yes' : 'estimated';
      return { result, message: `${input_tokens} tokens` };
    },
    ...(embedding === undefined
      ? { embeddings: async () => untried('embeddings', `${provider} offers no embedding model`) }
      : embedProbes(deps, { caller, patience, route: { ...route, model: embedding } })),
  };
}

function embedProbes(
  { embed }: ModelTestDeps,
  { caller, route, patience }: RouteTestOptions,
): Probes {
  return {
    async embeddings() {
      const body = { model: nameRoute(route), input: ['ok'], purpose: PURPOSE };
      const { embeddings } = await embed(caller, body, patience);
      return yes(`returned a vector of ${embeddings[0]?.length ?? 0} numbers`);
    },
  };
}

const nameRoute = ({ provider, model }: ModelRoute): string =>
  provider === REHEARSAL ? model : `${provider}/${model}`;

function makeBody(more: object) {
  const messages = [{ role: 'user', content: 'Answer with the word ok.' }];
  const body = { max_tokens: OUTPUT_TOKENS, messages, ...more };
  return { text: JSON.stringify(body), body, headers: {}, purpose: PURPOSE };
}

async function readText({ body }: ClientResponse): Promise<string> {
  if (typeof body === 'string') return body;
  if (body instanceof Uint8Array) return Buffer.from(body).toString('utf8');
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(Buffer.from(piece as Uint8Array));
  return Buffer.concat(pieces).toString('utf8');
}

/** Throws for a stream that ended with an error. */
function countPieces(stream: string): number {
  const failed = /^event: error\ndata: (.*)$/m.exec(stream)?.[1];
  if (failed !== undefined)
    throw fault('provider_malformed', `the stream broke: ${failed.slice(0, 200)}`);
  return stream.match(/^event: content_block_delta$/gm)?.length ?? 0;
}

function readAnswer(text: string): { text: string; calls: number } {
  const { content } = JSON.parse(text) as { content: { type: string; text?: string }[] };
  return {
    text: content.find(({ type }) => type === 'text')?.text ?? '',
    calls: content.filter(({ type }) => type === 'tool_use').length,
  };
}

const quote = (text: string): string => JSON.stringify(text.slice(0, 80));
