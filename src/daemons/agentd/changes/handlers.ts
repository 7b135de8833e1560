// Handles the routes of changes: assembles what they need, and passes each request on.
import type { HandlerContext, Handlers } from '../../../platform/dispatch.ts';
import type { NewId } from '../../../platform/ids.ts';
import { hashJson } from '../../../platform/json.ts';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import type { Policy } from '../../../policy/decide.ts';
import type { changeRoutes } from '../../../wire/agentd/changes.ts';
import type { approvaldRoutes } from '../../../wire/approvald.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import type { tooldRoutes } from '../../../wire/toold.ts';
import type { AgentdStore } from '../store/store.ts';
import { makeApplyApprovals } from './apply-approval.ts';
import { type Changes, makeChanges } from './changes.ts';
import { makeLayerActions } from './layer-actions.ts';
import { makeTreeChangesReader } from './tree-changes.ts';

type Routes = typeof changeRoutes;

export function openChanges(deps: {
  store: AgentdStore;
  peers: {
    sandboxd: Client<typeof sandboxdRoutes>;
    toold: Client<typeof tooldRoutes>;
    approvald: Client<typeof approvaldRoutes>;
  };
  policy: () => Policy;
  newId: NewId;
  log: Log;
  failpoint: (name: string) => void;
}): { changes: Changes; handlers: Handlers<Routes> } {
  const { store, peers, newId, log, failpoint } = deps;
  const { sandboxd, toold, approvald } = peers;
  const reader = makeTreeChangesReader({
    store,
    sandboxd,
    decide: (request) => deps.policy().decide(request),
  });
  const actions = makeLayerActions({ store, sandboxd, toold, reader, newId, failpoint });
  const approvals = makeApplyApprovals(approvald);
  const changes = makeChanges({
    store,
    sandboxd,
    reader,
    actions,
    approvals,
    log,
  });
  return { changes, handlers: makeChangeHandlers(changes) };
}

function makeChangeHandlers(changes: Changes): Handlers<Routes> {
  return {
    listChanges: ({ params, query }) => changes.list(params.id, query),
    readChangeTexts: ({ params, body }) => changes.readTexts(params.id, body),
    async applyChanges(c: HandlerContext<Routes['applyChanges']>) {
      const { params, body, caller, idempotencyKey } = c;
      const once = idempotencyKey && {
        scope: `${caller.principal} applyChanges`,
        key: idempotencyKey,
        requestHash: hashJson([params, body]),
      };
      return { apply: await changes.apply(params.id, body, caller.principal, once || undefined) };
    },
    discardChanges: async ({ params, caller }) => ({
      discard: await changes.discard(params.id, caller.principal),
    }),
    undoChanges: async ({ params, body, caller }) => ({
      undo: await changes.undo(params.id, body.apply_id, caller.principal),
    }),
  };
}
