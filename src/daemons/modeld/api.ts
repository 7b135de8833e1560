// Handles modeld's routes: passes requests to the service and writes its results for the wire.
import type { HandlerContext, Handlers } from '../../platform/dispatch.ts';
import { RawReply } from '../../platform/dispatch.ts';
import type {
  DialectName,
  GenerateEvent,
  keyRoutes,
  ModelView,
  modeldRoutes,
} from '../../wire/modeld.ts';
import type { ClientResponse } from './service/client-calls.ts';
import type { ModeldService } from './service/service.ts';

type ModeldHandlers = Handlers<typeof modeldRoutes>;

const SSE = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };

const readDeadline = ({
  controller,
  deadlineMs,
}: Pick<HandlerContext, 'controller' | 'deadlineMs'>) => ({
  controller,
  deadlineMs,
});

async function* writeEvents(events: AsyncIterable<GenerateEvent>): AsyncGenerator<string, void> {
  for await (const event of events) yield `data: ${JSON.stringify(event)}\n\n`;
}

function writeRaw({ headers, body }: ClientResponse): RawReply {
  return new RawReply({ status: 200, headers, body });
}

type ClientContext = Pick<
  HandlerContext,
  'caller' | 'rawBody' | 'headers' | 'controller' | 'deadlineMs'
> & { body: object };

/** The local link has no raw text, so the parsed body is written again. */
function readClientBody({ rawBody, body, headers }: ClientContext) {
  const text = rawBody ?? JSON.stringify(body);
  return { text, body: body as Record<string, unknown>, headers };
}

export function makeHandlers(service: ModeldService): ModeldHandlers {
  return {
    ...makeModelHandlers(service),
    ...makeSettingHandlers(service),
    ...makeRunHandlers(service),
    ...makeKeyHandlers(service),
    ...makePruneHandlers(service),
  };
}

type ModelRoutes =
  | 'generate'
  | 'watchLive'
  | 'embed'
  | 'embedMemories'
  | 'listModels'
  | 'testModel'
  | 'openaiChat'
  | 'openaiResponses'
  | 'openaiEmbeddings'
  | 'openaiModels'
  | 'openaiModel'
  | 'anthropicMessages'
  | 'anthropicCountTokens'
  | 'anthropicModels'
  | 'anthropicModel';

function makeModelHandlers(service: ModeldService): Pick<ModeldHandlers, ModelRoutes> {
  // A run gets the default model: the manifest check has already reported an unknown name.
  const assertMeant = (caller: HandlerContext['caller'], model: unknown): void => {
    if (caller.kind !== 'run' && typeof model === 'string') service.providers.assertOffered(model);
  };
  /** An API key sees only the models it may use. */
  const listFor = (caller: HandlerContext['caller']): ModelView[] => {
    const views = service.providers.listModelViews();
    return caller.kind === 'key'
      ? views.filter(({ name }) => service.apiKeys.mayUse(caller.name, name))
      : views;
  };
  /** An alias is answered under the name that was asked for. */
  const findFor = (caller: HandlerContext['caller'], id: string): ModelView => {
    const views = listFor(caller);
    const byName = (name: string) => views.find((view) => view.name === name);
    const { providers, runs } = service;
    const own = caller.kind === 'run' ? runs.current(caller).model : undefined;
    const meant = providers.listMeanings(id, providers.getKind(id), own);
    const found = byName(id) ?? meant.flatMap((name) => byName(name) ?? [])[0];
    if (found === undefined) throw providers.unknownModelFault(id);
    return { ...found, name: id };
  };
  const makeClientHandler = (dialect: DialectName) => async (context: ClientContext) => {
    const { caller } = context;
    const body = readClientBody(context);
    assertMeant(caller, body.body.model);
    return writeRaw(await service.callAsClient(caller, dialect, body, readDeadline(context)));
  };
  return {
    async generate(context) {
      assertMeant(context.caller, context.body.model);
      const generated = await service.generate(context.caller, context.body, readDeadline(context));
      if ('response' in generated) return generated.response;
      return new RawReply({ status: 200, headers: SSE, body: writeEvents(generated.events) });
    },
    async embed(context) {
      assertMeant(context.caller, context.body.model);
      return service.embed(context.caller, context.body, readDeadline(context));
    },
    embedMemories: (context) => service.embedMemories(context.body, readDeadline(context)),
    watchLive: async ({ query, signal }) => service.feed.watch(query, signal),
    listModels: async () => ({
      models: service.providers.listModelViews(),
      providers: service.providers.listViews(),
      aliases: service.providers.listAliases(),
    }),
    testModel: (context) =>
      service.testModel(context.caller, context.body.name, readDeadline(context)),
    openaiChat: makeClientHandler('openai'),
    openaiResponses: makeClientHandler('responses'),
    async openaiEmbeddings(context) {
      const { caller, body } = context;
      assertMeant(caller, body.model);
      return writeRaw(await service.embedAsClient(caller, body, readDeadline(context)));
    },
    openaiModels: async ({ caller }) => writeOpenaiModels(listFor(caller)),
    openaiModel: async ({ caller, params: { id } }) => writeOpenaiModel(findFor(caller, id)),
    anthropicMessages: makeClientHandler('anthropic'),
    async anthropicCountTokens(context) {
      const { caller } = context;
      const body = readClientBody(context);
      assertMeant(caller, body.body.model);
      return writeRaw(await service.countTokens(caller, body, readDeadline(context)));
    },
    anthropicModels: async ({ caller }) => writeAnthropicModels(filterChatModels(listFor(caller))),
    anthropicModel: async ({ caller, params: { id } }) => {
      const found = findFor(caller, id);
      if (found.kind !== 'chat') throw service.providers.unknownModelFault(id);
      return writeAnthropicModel(found);
    },
  };
}

type SettingRoutes =
  | 'usage'
  | 'listBudgets'
  | 'setBudget'
  | 'listCalls'
  | 'getCall'
  | 'forgetPart'
  | 'addProvider'
  | 'removeProvider'
  | 'setAlias';

function makeSettingHandlers({
  settings,
  reports,
  providers,
}: ModeldService): Pick<ModeldHandlers, SettingRoutes> {
  return {
    usage: ({ query: { agent, task_id: taskId, since, by } }) =>
      reports.usage({ agent, taskId, since, by }),
    listBudgets: async () => ({ budgets: await settings.listBudgets() }),
    setBudget: async ({ caller, body }) => {
      const setBy = caller.kind === 'operator' ? 'operator' : 'agentd';
      return { budget: await settings.setBudget({ principal: caller.principal, setBy }, body) };
    },
    listCalls: ({ query }) =>
      reports.list({
        runId: query.run_id,
        taskId: query.task_id,
        limit: query.limit,
        cursor: query.cursor,
      }),
    getCall: ({ params }) => reports.get(params.id),
    forgetPart: async ({ caller, params }) => ({
      forgotten: await settings.forgetPart(caller.principal, params.hash),
    }),
    addProvider: async ({ caller, params, body }) => ({
      provider: await settings.addProvider(caller.principal, params.name, body),
    }),
    removeProvider: async ({ caller, params, query }) => ({
      provider: await settings.removeProvider(caller.principal, params.name, query.model),
    }),
    async setAlias({ caller, body }) {
      await settings.setAlias(caller.principal, body.pattern, body.model);
      return { aliases: providers.listAliases() };
    },
  };
}

function makeKeyHandlers({ apiKeys }: ModeldService): Pick<ModeldHandlers, keyof typeof keyRoutes> {
  return {
    createKey: async ({ caller, body }) => ({ key: await apiKeys.create(caller.principal, body) }),
    listKeys: async () => ({ keys: apiKeys.list() }),
    getKey: async ({ params }) => ({ key: apiKeys.get(params.name) }),
    rotateKey: async ({ caller, params, body }) => ({
      key: await apiKeys.rotate(caller.principal, params.name, body.overlap_s * 1_000),
    }),
    revokeKey: async ({ caller, params }) => ({
      key: await apiKeys.revoke(caller.principal, params.name),
    }),
  };
}

function makeRunHandlers({
  runs,
}: ModeldService): Pick<ModeldHandlers, 'admitRun' | 'dismissRun' | 'markRun'> {
  return {
    admitRun: async ({ params, body }) => ({ socket: await runs.admit(params.id, body) }),
    dismissRun: async ({ params, query }) => ({
      dismissed: await runs.dismiss(params.id, query.fence),
    }),
    markRun: async ({ params, body }) => ({ labels: await runs.mark(params.id, body.labels) }),
  };
}

type PruneRoutes =
  | 'prune'
  | 'eraseCopies'
  | 'pruneContexts'
  | 'prunePeoplesCalls'
  | 'listContexts'
  | 'contextSizes'
  | 'expireTombstones';

function makePruneHandlers({
  pruning,
  eraseCopies,
  reports,
}: ModeldService): Pick<ModeldHandlers, PruneRoutes> {
  return {
    eraseCopies: ({ body }) => eraseCopies(body),
    prune: ({ body }) => pruning.pruneTree(body),
    pruneContexts: ({ body: { dry_run: isDryRun = false, ...tree } }) =>
      pruning.pruneContexts(tree, isDryRun),
    prunePeoplesCalls: ({ body }) =>
      pruning.prunePeoplesCalls({ beforeMs: Date.parse(body.before), limit: body.limit }),
    listContexts: async ({ query }) => ({
      run_ids: await reports.listContexts(query.after, query.limit),
    }),
    contextSizes: async () => ({ sizes: await pruning.contextSizes() }),
    expireTombstones: async ({ body }) => ({
      expired: await pruning.expireTombstones(Date.parse(body.before)),
    }),
  };
}

const LISTED_AT = '2026-01-01T00:00:00Z';

function writeOpenaiModels(models: readonly ModelView[]) {
  return {
    object: 'list',
    data: models.map(writeOpenaiModel),
  };
}

function writeOpenaiModel({ name, routes }: ModelView) {
  return {
    id: name,
    object: 'model',
    created: Date.parse(LISTED_AT) / 1000,
    owned_by: routes[0]?.provider ?? 'agentd',
  };
}

function filterChatModels(models: readonly ModelView[]): ModelView[] {
  return models.filter((model) => model.kind === 'chat');
}

function writeAnthropicModel({ name, context_tokens, max_output_tokens }: ModelView) {
  return {
    type: 'model',
    id: name,
    display_name: name,
    created_at: LISTED_AT,
    max_input_tokens: context_tokens,
    max_tokens: max_output_tokens,
  };
}

function writeAnthropicModels(models: readonly ModelView[]) {
  const data = models.map(writeAnthropicModel);
  return {
    data,
    has_more: false,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  };
}
