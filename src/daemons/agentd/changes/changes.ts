// Lets people see, apply, discard and undo the changes that a task tree made in a layer over their
// directory. Any task of the tree names it. Policy decides about each apply; an ask waits for
// approvald.
import { hashChanges } from '../../../platform/change-hash.ts';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import { makeKeyedMutex } from '../../../platform/mutex.ts';
import type { IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import type { PolicyDecision } from '../../../policy/request.ts';
import type { ApplyView, RunView, TreeChanges } from '../../../wire/agentd.ts';
import { fault, faultFromBody } from '../../../wire/errors.ts';
import type { ApprovalId, TaskId } from '../../../wire/primitives.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import {
  type LayerActionRequest,
  type LayerActionRow,
  readLayerRequest,
} from '../store/layer-actions.ts';
import { time } from '../store/rows.ts';
import type { AgentdStore } from '../store/store.ts';
import { type ApplyApprovals, NOBODY, toActionId, toCallIds } from './apply-approval.ts';
import {
  assertAppliable,
  type ChosenChanges,
  countChanges,
  describeChanges,
  describeKind,
  dropLeftOut,
  selectChanges,
} from './change-rules.ts';
import {
  type LayerActionOf,
  type LayerActions,
  type LayerOutcomes,
  layerOf,
} from './layer-actions.ts';
import type { LayeredRoot, TaskLayer, TreeChangesReader } from './tree-changes.ts';

type SandboxdViews = Pick<Client<typeof sandboxdRoutes>, 'layerChanges' | 'layerTexts'>;
type Once = IdempotencyKey | undefined;
type InTree<K extends 'discard' | 'undo'> = LayerOutcomes[K] & { root_task_id: TaskId };

export type Changes = {
  list(id: string, page: { after?: string | undefined; limit: number }): Promise<TreeChanges>;
  readTexts(
    id: string,
    body: { paths: string[]; bytes_max: number },
  ): ReturnType<SandboxdViews['layerTexts']>;
  apply(id: string, request: ChosenChanges, by: string, once: Once): Promise<ApplyView>;
  discard(id: string, by: string): Promise<InTree<'discard'>>;
  undo(id: string, applyId: string | undefined, by: string): Promise<InTree<'undo'>>;
  /** An approval has ended. Resolves to false if no apply waits for it under this id. */
  approvalEnded(runId: string): Promise<boolean>;
  /** To approvald, an apply that waits is a parked run. */
  findRun(runId: string): Promise<RunView | undefined>;
  /** Finishes what the process before this one began. */
  begin(): Promise<void>;
};

export function makeChanges(deps: {
  store: AgentdStore;
  sandboxd: SandboxdViews;
  reader: TreeChangesReader;
  actions: LayerActions;
  approvals: ApplyApprovals;
  log: Log;
}): Changes {
  const { store, sandboxd, reader, actions, approvals, log } = deps;
  const inTree = makeKeyedMutex();

  const shownFor = async (row: LayerActionRow) => {
    const layer = await reader.findLayer(layerOf(row));
    const { root } = layer;
    const chosen = selectChanges(await reader.readAll(layer.id), readLayerRequest(row).paths);
    const labels = await reader.marksOf(layer);
    return { row, layer, root, diff: describeChanges(chosen), labels };
  };

  const requestApproval = async (row: LayerActionRow, decision: PolicyDecision) => {
    const id = await shownFor(row)
      .then((shown) => approvals.request(shown, decision))
      .catch((error: unknown) => actions.fail(row, error));
    await store.setLayerApproval(row.id, id);
    return { ...row, approval_id: id };
  };

  /** Policy, the changes and the marks may have changed while it waited. */
  const settleWaiting = async (row: LayerActionOf<'apply'>): Promise<void> => {
    const { counts, allow = [] } = readLayerRequest(row);
    try {
      const shown = await shownFor(row);
      const facts = { isUndo: false, counts: counts!, kinds: allow };
      const decision = await reader.decideApply(row.principal, shown.layer, facts);
      if (row.approval_id === null) return void (await requestApproval(row, decision));
      if ((await approvals.redeem(shown)) === 'pending') return;
    } catch (error) {
      return actions.fail(row, error);
    }
    await actions.perform(row, await store.attemptLayerAction(row.id));
  };

  const settle = (id: string, rootTaskId: string): void => {
    const work = inTree(rootTaskId, async () => {
      const row = (await store.layerAction(id)) as LayerActionOf<'apply'> | undefined;
      if (row?.status === 'waiting') await settleWaiting(row);
      else if (row?.status === 'attempted') await actions.perform(row, 0);
    });
    work.catch((error: unknown) => log.warn('an action on a layer failed', { id, error }));
  };

  /** Answers a repeated request. */
  const resume = async (row: LayerActionOf<'apply'>): Promise<ApplyView> => {
    if (row.status === 'waiting') return viewApply(row);
    if (row.status === 'refused') throw faultFromBody(JSON.parse(row.outcome!));
    if (row.status === 'done')
      return viewApply(row, JSON.parse(row.outcome!) as LayerOutcomes['apply']);
    return viewApply(row, await actions.perform(row, 0));
  };

  const findWaiting = async (root: LayeredRoot, by: string, request: LayerActionRequest) =>
    (await store.listOpenLayerActions()).find(
      (row) =>
        row.root_task_id === root.id &&
        row.status === 'waiting' &&
        row.principal === by &&
        row.request === JSON.stringify(request),
    );

  const apply = async (layer: TaskLayer, asked: ChosenChanges, by: string, once: Once) => {
    const { paths, allow = [], overwrite } = asked;
    const all = await reader.readAll(layer.id);
    const chosen = selectChanges(all, paths);
    assertAppliable(layer, all, chosen, asked);
    const applied = dropLeftOut(chosen, allow);
    const counts = countChanges(applied);
    const request: LayerActionRequest = {
      path: layer.root.workspace,
      allow: [...new Set(allow)].sort(),
      change_sha256: hashChanges(chosen),
      counts,
      ...(paths === undefined ? {} : { paths }),
      ...(overwrite === true ? { overwrite } : {}),
    };
    const kinds = [...new Set(applied.flatMap(({ refused }) => refused))];
    const decision = await reader.decideApply(by, layer, { isUndo: false, counts, kinds });
    const { rules } = decision;
    const given = { action: 'apply', layer, by, request, rules, once } as const;
    if (decision.answer === 'allow') {
      const { row, seq } = await actions.begin(given);
      return viewApply(row, await actions.perform(row, seq));
    }
    const waiting = await findWaiting(layer.root, by, request);
    if (waiting !== undefined) return viewApply(waiting);
    const { row } = await actions.begin(given, 'waits');
    return viewApply(await requestApproval(row, decision));
  };

  return {
    async list(id, { limit, after }) {
      const layer = await reader.findLayer(id);
      const query = { limit, ...(after === undefined ? {} : { after }) };
      const answer = await sandboxd.layerChanges({ params: { id: layer.id }, query });
      const kinds = new Set(answer.changes.flatMap(({ refused }) => refused));
      return {
        ...answer,
        root_task_id: layer.root.id as TaskId,
        path: layer.root.workspace,
        ...(layer.parentId === null ? {} : { layer_task_id: layer.id }),
        labels: await reader.marksOf(layer),
        refusals: Object.fromEntries([...kinds].map((kind) => [kind, describeKind(kind)])),
      };
    },
    async readTexts(id, body) {
      const layer = await reader.findLayer(id);
      return sandboxd.layerTexts({ params: { id: layer.id }, body });
    },
    async apply(id, asked, by, once) {
      const layer = await reader.findLayer(id);
      return inTree(layer.root.id, async () => {
        const known = once && (await store.findRecorded<{ id: string }>(once));
        if (known !== undefined)
          return resume((await store.layerAction(known.id)) as LayerActionOf<'apply'>);
        store.outbox.assertAuditAccepting();
        return apply(layer, asked, by, once);
      });
    },
    async discard(id, by) {
      const layer = await reader.findLayer(id);
      return inTree(layer.root.id, async () => {
        store.outbox.assertAuditAccepting();
        const request = { path: layer.root.workspace };
        const given = { action: 'discard', layer, by, request, rules: [] } as const;
        const { row, seq } = await actions.begin(given);
        return { root_task_id: layer.root.id as TaskId, ...(await actions.perform(row, seq)) };
      });
    },
    async undo(id, named, by) {
      const layer = await reader.findLayer(id);
      return inTree(layer.root.id, async () => {
        store.outbox.assertAuditAccepting();
        const applyId = named ?? (await findLastApply(sandboxd, layer.id));
        const done = await store.layerAction(applyId);
        const { counts = countChanges([]), allow = [] } =
          done === undefined ? {} : readLayerRequest(done);
        const facts = { isUndo: true, counts, kinds: allow };
        const { rules } = await reader.decideApply(by, layer, facts);
        const request = { path: layer.root.workspace, apply_id: applyId };
        const given = { action: 'undo', layer, by, request, rules } as const;
        const { row, seq } = await actions.begin(given);
        return { root_task_id: layer.root.id as TaskId, ...(await actions.perform(row, seq)) };
      });
    },
    async approvalEnded(runId) {
      const row = await store.layerAction(toActionId(runId));
      if (row === undefined) return false;
      settle(row.id, row.root_task_id);
      return true;
    },
    async findRun(runId) {
      const row = await store.layerAction(toActionId(runId));
      if (row === undefined) return undefined;
      const { assigned_to } = await store.taskRow(row.root_task_id);
      return toRun(row, assigned_to);
    },
    async begin() {
      for (const row of await store.listOpenLayerActions()) settle(row.id, row.root_task_id);
    },
  };
}

const toRun = (row: LayerActionRow, agent: string | null): RunView =>
  ({
    id: toCallIds(row.id).run_id,
    task_id: row.root_task_id,
    agent: agent ?? NOBODY,
    fence: 1,
    status: row.status === 'waiting' ? 'parked' : 'ended',
    outcome: row.status === 'refused' ? 'canceled' : null,
    activations: 0,
    crashes: 0,
    persona_sha256: null,
    lease_until: null,
    created_at: time(row.created_ms)!,
    ended_at: time(row.ended_ms),
  }) as RunView;

async function findLastApply(sandboxd: SandboxdViews, layerId: TaskId): Promise<string> {
  const params = { id: layerId };
  const { layer } = await sandboxd.layerChanges({ params, query: { limit: 1 } });
  const last = layer?.applied.find(({ undone }) => !undone);
  if (last !== undefined) return last.apply_id;
  throw fault('not_found', `nothing of ${layerId} is applied`, {
    hint: `See what waits: agentctl task diff ${layerId}`,
  });
}

function viewApply(row: LayerActionRow, applied?: LayerOutcomes['apply']): ApplyView {
  const { path, counts, allow = [], change_sha256 } = readLayerRequest(row);
  return {
    apply_id: row.id,
    root_task_id: row.root_task_id as TaskId,
    path,
    ...(row.layer_task_id === null ? {} : { layer_task_id: row.layer_task_id as TaskId }),
    status: applied === undefined ? 'waiting' : 'applied',
    approval_id: row.approval_id as ApprovalId | null,
    change_sha256: applied?.change_sha256 ?? change_sha256!,
    counts: counts!,
    allowed: allow,
    applied: applied?.applied ?? [],
    merged: applied?.merged ?? [],
    commits: applied?.commits ?? [],
    commits_left: applied?.commits_left ?? [],
  };
}
