// Maps memoryd's routes to its operations.
import type { HandlerContext, Handlers } from '../../platform/dispatch.ts';
import { hashJson } from '../../platform/json.ts';
import { cutPage, readIdCursor } from '../../platform/page.ts';
import { findKeyOwner } from '../../platform/person-keys.ts';
import type { IdempotencyKey } from '../../platform/sql/idempotency.ts';
import type { ActingPerson } from '../../wire/approvald/proposals.ts';
import type { Caller } from '../../wire/caller.ts';
import type { EraseCopies, ErasedCopies } from '../../wire/copies.ts';
import { Fault, fault } from '../../wire/errors.ts';
import type { ErasureView, MemoryId, MemoryView, NewMemory } from '../../wire/memoryd/records.ts';
import type { MemoryRun, memorydRoutes } from '../../wire/memoryd.ts';
import type { RecallForBriefing } from './service/briefing.ts';
import type { MemoryChanges } from './service/changes.ts';
import type { Combination, Combine } from './service/combine.ts';
import type { EpisodeRetention } from './service/episode-retention.ts';
import type { KeepEpisode } from './service/episodes.ts';
import type { Finder } from './service/finder.ts';
import type { ReadInputs } from './service/inputs.ts';
import type { ProposalReviews } from './service/proposal-review.ts';
import type { MemoryProposals } from './service/proposals.ts';
import type { Recall, RecallQuery } from './service/recall.ts';
import type { Remember } from './service/remember.ts';
import type { Actor } from './service/rights.ts';
import type { MemorySnapshots } from './service/snapshots.ts';
import type { CaughtUp } from './store/catch-up.ts';

export type MemoryApiDeps = {
  remember: Remember;
  recall: Recall;
  finder: Finder;
  changes: MemoryChanges;
  proposals: MemoryProposals;
  reviews: ProposalReviews;
  combine: Combine;
  snapshots: MemorySnapshots;
  recallForBriefing: RecallForBriefing;
  readInputs: ReadInputs;
  keepEpisode: KeepEpisode;
  episodes: EpisodeRetention;
  eraseCopies(order: EraseCopies): Promise<ErasedCopies>;
  findErasure(id: string): Promise<ErasureView | null>;
  rebuild(): Promise<CaughtUp>;
};

function asPerson(caller: Caller): Actor {
  if (caller.kind !== 'operator') throw fault('forbidden_caller', 'only people may call this');
  return { principal: caller.principal, person: findKeyOwner(caller) };
}

const toActingPerson = (caller: Caller): ActingPerson => ({
  principal: caller.principal as ActingPerson['principal'],
  key: (caller.kind === 'operator' ? caller.key : undefined) ?? 'operator',
});

const asRun = (run: MemoryRun): Actor => ({ principal: `agent:${run.agent}`, run });

type AnyContext = Pick<HandlerContext, 'caller' | 'idempotencyKey'> & {
  params?: unknown;
  body?: unknown;
};
type RememberBody = NewMemory | { memories: readonly NewMemory[] };

/** Scopes the key by caller and route, because clients choose keys freely. */
function keyFor(context: AnyContext, route: string): IdempotencyKey | undefined {
  const { caller, idempotencyKey: key, params, body } = context;
  if (key === undefined) return undefined;
  return { scope: `${caller.principal} ${route}`, key, requestHash: hashJson([params, body]) };
}

type RecallBody = {
  scope?: string | undefined;
  scopes?: readonly string[] | undefined;
  query: string;
  limit: number;
  as_of?: string | undefined;
  max_tokens?: number | undefined;
};

function toQuery({ scope, scopes, as_of, max_tokens, ...rest }: RecallBody): RecallQuery {
  if (scope !== undefined && scopes !== undefined)
    throw fault('bad_request', 'body: give scope or scopes, not both');
  return {
    ...rest,
    scopes: scope === undefined ? scopes : [scope],
    asOfMs: as_of === undefined ? undefined : Date.parse(as_of),
    maxTokens: max_tokens,
  };
}

function toRefusal(error: unknown): Pick<Fault, 'code' | 'message' | 'hint'> {
  if (!(error instanceof Fault)) throw error;
  const { code, message, hint } = error;
  return { code, message, hint };
}

export function makeHandlers(deps: MemoryApiDeps): Handlers<typeof memorydRoutes> {
  const { finder, changes, combine, snapshots, episodes, proposals } = deps;
  const viewAll = (actor: Actor, ids: readonly string[]) =>
    Promise.all(ids.map((id) => finder.view(actor, id)));
  const withErasure = async (memory: MemoryView): Promise<MemoryView> =>
    memory.status === 'forgotten'
      ? { ...memory, erasure: await deps.findErasure(memory.id) }
      : memory;
  const viewOne = async (actor: Actor, id: string) => ({ memory: await finder.view(actor, id) });
  const remember = async (
    context: AnyContext,
    body: RememberBody,
    how: { route: string; proposes: boolean },
  ) => {
    const actor = asPerson(context.caller);
    const memories = 'memories' in body ? body.memories : [body];
    const once = keyFor(context, how.route);
    const ids = await deps.remember(actor, memories, { once, proposes: how.proposes });
    const views = await viewAll(actor, ids);
    return { memory: views[0]!, memories: views };
  };
  const decide = async (caller: Caller, id: MemoryId, answer: 'approve' | 'reject') => {
    const actor = asPerson(caller);
    await proposals.decide(toActingPerson(caller), id, answer);
    return viewOne(actor, id);
  };
  const decideAll = async (
    caller: Caller,
    ids: readonly MemoryId[],
    answer: 'approve' | 'reject',
  ) => {
    const decided = [];
    for (const id of new Set(ids)) {
      const outcome = await decide(caller, id, answer).then(
        ({ memory }) => ({ memory, error: null }),
        (error: unknown) => ({ memory: null, error: toRefusal(error) }),
      );
      decided.push({ id, ...outcome });
    }
    return { decided };
  };
  const joinAs = async (context: AnyContext, op: 'merge' | 'summarize', body: Combination) => {
    const actor = asPerson(context.caller);
    return viewOne(actor, await combine(actor, op, body, keyFor(context, op)));
  };
  return {
    async runRecall({ body }) {
      const { run, ...query } = body;
      return deps.recall(asRun(run), toQuery(query));
    },
    async runRemember({ body }) {
      const { run, memories, propose } = body;
      const actor = asRun(run);
      const once = { scope: run.run_id, key: run.call_id, requestHash: hashJson(memories) };
      const ids = await deps.remember(actor, memories, { once, proposes: propose });
      return { memories: await viewAll(actor, ids) };
    },
    async runMemories({ body }) {
      return { memories: await viewAll(asRun(body.run), body.ids) };
    },
    async runForget({ body }) {
      const actor = { ...asRun(body.run), isApproved: body.approved };
      await changes.forget(actor, body.ids);
      return { memories: await viewAll(actor, body.ids) };
    },
    remember: (context) => remember(context, context.body, { route: 'remember', proposes: false }),
    proposeMemory: (context) =>
      remember(context, context.body, { route: 'propose', proposes: true }),
    recall: async ({ caller, body }) => deps.recall(asPerson(caller), toQuery(body)),
    approveMemory: ({ caller, params }) => decide(caller, params.id, 'approve'),
    rejectMemory: ({ caller, params }) => decide(caller, params.id, 'reject'),
    approveMemories: ({ caller, body }) => decideAll(caller, body.ids, 'approve'),
    rejectMemories: ({ caller, body }) => decideAll(caller, body.ids, 'reject'),
    reviewProposal: ({ body }) => deps.reviews.review(body.memory_id, body.person),
    editProposal: ({ body }) => deps.reviews.edit(body.memory_id, body.person, body),
    async proposalDecided({ body: { memory_id, approval_id, version } }) {
      const decided = { approvalId: approval_id, version };
      return { status: (await proposals.handleDecision(memory_id, decided)) ?? 'forgotten' };
    },
    filterProposed: async ({ body }) => ({
      memory_ids: await proposals.filterProposed(body.memory_ids),
    }),
    async editMemory({ caller, params, body }) {
      const actor = asPerson(caller);
      const { vouch, ...edit } = body;
      await changes.edit(actor, params.id, { ...edit, vouches: vouch });
      return viewOne(actor, params.id);
    },
    async forget({ caller, body }) {
      const actor = asPerson(caller);
      await changes.forget(actor, body.ids);
      const views = await viewAll(actor, body.ids);
      return { memories: await Promise.all(views.map(withErasure)) };
    },
    async expire({ caller, body }) {
      const actor = asPerson(caller);
      await changes.expire(actor, body.ids, body.at);
      return { memories: await viewAll(actor, body.ids) };
    },
    merge: (context) => joinAs(context, 'merge', context.body),
    summarize: (context) => joinAs(context, 'summarize', context.body),
    async takeMemorySnapshot(context) {
      const { caller, body } = context;
      const once = keyFor(context, 'snapshot');
      return { snapshot: await snapshots.take(asPerson(caller), body, once) };
    },
    async listMemorySnapshots({ caller, query }) {
      const before = readIdCursor(query.cursor, 'memsnap');
      const found = await snapshots.list(asPerson(caller), { before, limit: query.limit + 1 });
      const { rows, cursor } = cutPage(found, query.limit, ({ id }) => id);
      return { snapshots: rows, cursor };
    },
    async rollBackMemory({ caller, body }) {
      const actor = asPerson(caller);
      if ('snapshot_id' in body) {
        const ids = await snapshots.rollBackTo(actor, body.snapshot_id);
        return { changed: ids.length };
      }
      await snapshots.restore(actor, body);
      return { changed: 1 };
    },
    async listMemories({ caller, query }) {
      const { limit, cursor: from, scope, ...wanted } = query;
      const found = await finder.list(asPerson(caller), {
        scopes: scope === undefined ? undefined : [scope],
        before: readIdCursor(from, 'memory'),
        limit: limit + 1,
      });
      const { rows, cursor } = cutPage(found, limit, ({ id }) => id);
      const memories = rows.filter(
        (memory) =>
          memory.class === (wanted.class ?? memory.class) &&
          memory.status === (wanted.status ?? memory.status),
      );
      return { memories, cursor };
    },
    async memoryHistory({ caller, params }) {
      return { versions: await finder.history(asPerson(caller), params.id) };
    },
    readInputMemories: async ({ body }) => ({ memories: await deps.readInputs(body) }),
    recallForBriefing: async ({ body }) => ({ memories: await deps.recallForBriefing(body) }),
    keepEpisode: async ({ body }) => ({ ids: await deps.keepEpisode(body) }),
    async listEpisodes({ query }) {
      const { recorded_before, root_task_id: rootTaskId, after = '', ...rest } = query;
      const recordedBeforeMs = Date.parse(recorded_before);
      return { episodes: await episodes.list({ ...rest, after, rootTaskId, recordedBeforeMs }) };
    },
    async listFullScopes({ query }) {
      const scopes = await episodes.listFullScopes(query.episodes_max);
      return { scopes: scopes.map(({ scope, until }) => ({ scope, until: until as MemoryId })) };
    },
    pruneEpisodes: ({ body: { ids, ...why } }) => episodes.prune(ids, why),
    compactMemory: async () => ({ compacted: await episodes.compact() }),
    memorySizes: async () => ({ scopes: await episodes.sizes() }),
    eraseCopies: ({ body }) => deps.eraseCopies(body),
    rebuildMemory: () => deps.rebuild(),
    async getMemory({ caller, params, query }) {
      const view = await finder.view(asPerson(caller), params.id, query.version);
      return { memory: await withErasure(view) };
    },
  };
}
