// Maps memoryd's routes to its operations.
import type { HandlerContext, Handlers } from '../../platform/dispatch.ts';
import { hashJson } from '../../platform/json.ts';
import type { IdempotencyKey } from '../../platform/sql/idempotency.ts';
import type { Caller } from '../../wire/caller.ts';
import { fault } from '../../wire/errors.ts';
import type { memorydRoutes } from '../../wire/memoryd.ts';
import type { Finder } from './service/finder.ts';
import type { Recall, RecallQuery } from './service/recall.ts';
import type { Remember } from './service/remember.ts';
import type { Actor } from './service/rights.ts';
import type { CaughtUp } from './store/catch-up.ts';

export type MemoryApiDeps = {
  remember: Remember;
  recall: Recall;
  finder: Finder;
  rebuild(): Promise<CaughtUp>;
};

const PERSON_KEY = 'people/';

function asPerson(caller: Caller): Actor {
  if (caller.kind !== 'operator') throw fault('forbidden_caller', 'only people may call this');
  const { principal, key } = caller;
  const person = key?.startsWith(PERSON_KEY) ? key.slice(PERSON_KEY.length) : undefined;
  return { principal, person };
}

/** Scopes the key by caller and route, because clients choose keys freely. */
function keyFor(
  context: Pick<HandlerContext, 'caller' | 'idempotencyKey' | 'params' | 'body'>,
  route: string,
): IdempotencyKey | undefined {
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

export function makeHandlers(deps: MemoryApiDeps): Handlers<typeof memorydRoutes> {
  const { remember, recall, finder, rebuild } = deps;
  const viewAll = (actor: Actor, ids: readonly string[]) =>
    Promise.all(ids.map((id) => finder.view(actor, id)));
  return {
    async remember(context) {
      const { body } = context;
      const actor = asPerson(context.caller);
      const memories = 'memories' in body ? body.memories : [body];
      const once = keyFor(context as unknown as HandlerContext, 'remember');
      const views = await viewAll(actor, await remember(actor, memories, { once }));
      return { memory: views[0]!, memories: views };
    },
    async recall({ caller, body }) {
      return { memories: await recall(asPerson(caller), toQuery(body)) };
    },
    rebuildMemory: () => rebuild(),
    async getMemory({ caller, params, query }) {
      return { memory: await finder.view(asPerson(caller), params.id, query.version) };
    },
  };
}
