// The routes that agentctl calls. Types come from the contracts; the paths are repeated because the
// contracts import the schema library. A test keeps the two equal.
import type { commonRoutes } from '../../platform/common-routes.ts';
import type { CONTRACTS } from '../../wire/contracts.ts';
import type { DaemonName } from '../../wire/daemons.ts';

export type RouteTables = { [D in DaemonName]: (typeof CONTRACTS)[D] & typeof commonRoutes };

export const COMMON_PATHS = {
  health: 'GET /healthz',
  findIds: 'GET /v1/ids/{prefix}',
  reload: 'POST /v1/reload',
  openSnapshot: 'POST /v1/snapshots',
  releaseSnapshot: 'POST /v1/snapshots/{id}/release',
  readSnapshot: 'GET /v1/snapshots/{id}',
  dropSnapshot: 'DELETE /v1/snapshots/{id}',
} as const;

export const PATHS = {
  agentd: {
    status: 'GET /v1/status',
    halt: 'POST /v1/halt',
    unhalt: 'POST /v1/unhalt',
    getDiskUsage: 'GET /v1/disk-usage',
    startBackup: 'POST /v1/backups',
    renewBackup: 'POST /v1/backups/{id}/renew',
    endBackup: 'PUT /v1/backups/{id}',
    createTask: 'POST /v1/tasks',
    createProgram: 'POST /v1/programs',
    listTasks: 'GET /v1/tasks',
    getTask: 'GET /v1/tasks/{id}',
    getTree: 'GET /v1/tasks/{id}/tree',
    keepTask: 'PUT /v1/tasks/{id}/kept',
    startPrune: 'POST /v1/prune',
    getPrune: 'GET /v1/prune',
    listChanges: 'GET /v1/tasks/{id}/changes',
    readChangeTexts: 'POST /v1/tasks/{id}/changes/texts',
    applyChanges: 'POST /v1/tasks/{id}/apply',
    discardChanges: 'POST /v1/tasks/{id}/discard',
    undoChanges: 'POST /v1/tasks/{id}/undo',
    cancelTask: 'POST /v1/tasks/{id}/cancel',
    retryTask: 'POST /v1/tasks/{id}/retry',
    assignTask: 'POST /v1/tasks/{id}/assign',
    replayTask: 'POST /v1/tasks/{id}/replay',
    listRuns: 'GET /v1/runs',
    listAgents: 'GET /v1/agents',
    getAgent: 'GET /v1/agents/{name}',
    putAgent: 'PUT /v1/agents/{name}',
    removeAgent: 'DELETE /v1/agents/{name}',
    pauseAgent: 'POST /v1/agents/{name}/pause',
    resumeAgent: 'POST /v1/agents/{name}/resume',
    stopAgent: 'POST /v1/agents/{name}/stop',
    listWaits: 'GET /v1/waits',
    answerWait: 'POST /v1/waits/{id}/answer',
    sendMessage: 'POST /v1/messages',
    listMessages: 'GET /v1/messages',
    putArtifact: 'POST /v1/artifacts',
    listArtifacts: 'GET /v1/artifacts',
    getArtifact: 'GET /v1/artifacts/{id}',
    getPolicy: 'GET /v1/policy',
    checkPolicy: 'POST /v1/policy/check',
    showPolicy: 'GET /v1/policy/agents/{name}',
    simulatePolicy: 'POST /v1/policy/simulate',
  },
  toold: {
    listTools: 'GET /v1/tools',
    listCalls: 'GET /v1/tools/calls',
    getCall: 'GET /v1/tools/calls/{id}',
    checkArguments: 'POST /v1/tools/{name}/check',
    decideCall: 'POST /v1/tools/{name}/decide',
    suspendTool: 'POST /v1/tools/{name}/suspend',
    resumeTool: 'POST /v1/tools/{name}/resume',
  },
  modeld: {
    listModels: 'GET /v1/models',
    watchLive: 'GET /v1/models/live',
    usage: 'GET /v1/models/usage',
    listBudgets: 'GET /v1/models/budgets',
    setBudget: 'PUT /v1/models/budgets',
    testModel: 'POST /v1/models/test',
    listCalls: 'GET /v1/models/calls',
    getCall: 'GET /v1/models/calls/{id}',
    setAlias: 'PUT /v1/models/aliases',
    addProvider: 'PUT /v1/models/providers/{name}',
    removeProvider: 'DELETE /v1/models/providers/{name}',
    createKey: 'POST /v1/keys',
    listKeys: 'GET /v1/keys',
    getKey: 'GET /v1/keys/{name}',
    rotateKey: 'POST /v1/keys/{name}/rotate',
    revokeKey: 'POST /v1/keys/{name}/revoke',
  },
  sandboxd: {
    features: 'GET /v1/sandboxes/features',
    watchLive: 'GET /v1/sandboxes/live',
    identity: 'GET /v1/sandboxes/identity',
    listBoxes: 'GET /v1/sandboxes',
    listDisarmed: 'GET /v1/sandboxes/disarmed',
    attachProgram: 'POST /v1/sandboxes/programs/{id}/attach',
    execProgram: 'POST /v1/sandboxes/programs/{id}/exec',
    removeHome: 'DELETE /v1/sandboxes/homes/{id}',
  },
  memoryd: {
    remember: 'POST /v1/memory/remember',
    recall: 'POST /v1/memory/recall',
    getMemory: 'GET /v1/memory/{id}',
    proposeMemory: 'POST /v1/memory/propose',
    approveMemory: 'POST /v1/memory/{id}/approve',
    rejectMemory: 'POST /v1/memory/{id}/reject',
    editMemory: 'POST /v1/memory/{id}/edit',
    forget: 'POST /v1/memory/forget',
    expire: 'POST /v1/memory/expire',
    merge: 'POST /v1/memory/merge',
    summarize: 'POST /v1/memory/summarize',
    takeMemorySnapshot: 'POST /v1/memory/snapshots',
    listMemorySnapshots: 'GET /v1/memory/snapshots',
    rollBackMemory: 'POST /v1/memory/rollback',
    listMemories: 'GET /v1/memory',
    memoryHistory: 'GET /v1/memory/{id}/history',
    rebuildMemory: 'POST /v1/memory/rebuild',
  },
  approvald: {
    listApprovals: 'GET /v1/approvals',
    getApproval: 'GET /v1/approvals/{id}',
    approve: 'POST /v1/approvals/{id}/approve',
    reject: 'POST /v1/approvals/{id}/reject',
    requestInfo: 'POST /v1/approvals/{id}/request-info',
    escalate: 'POST /v1/approvals/{id}/escalate',
    listPermits: 'GET /v1/permits',
    revokePermit: 'DELETE /v1/permits/{id}',
  },
  'auditd-ai': {
    events: 'GET /v1/audit/events',
    task: 'GET /v1/audit/tasks/{task_id}',
    agent: 'GET /v1/audit/agents/{agent}',
    tool: 'GET /v1/audit/tools/{tool}',
    checkpoint: 'GET /v1/audit/checkpoint',
    holdLog: 'POST /v1/audit/hold',
    releaseLog: 'POST /v1/audit/hold/{id}/release',
    prove: 'GET /v1/audit/proofs/{id}',
    proveLine: 'POST /v1/audit/proofs',
    listSegments: 'GET /v1/audit/segments',
    exportSegment: 'POST /v1/audit/segments/{first_seq}/export',
    archiveSegment: 'POST /v1/audit/segments/{first_seq}/archive',
    rotateKey: 'POST /v1/audit/rotate-key',
  },
} as const satisfies { [D in DaemonName]?: { [K in keyof RouteTables[D]]?: string } };

type Paths = typeof PATHS;
type OwnRoute<D extends DaemonName> = D extends keyof Paths ? keyof Paths[D] : never;
export type CallableRoute<D extends DaemonName> = keyof RouteTables[D] &
  (keyof typeof COMMON_PATHS | OwnRoute<D>);

/** Returns `METHOD /path` by route name. */
export function listPaths(daemon: DaemonName): Readonly<Record<string, string>> {
  const own: { [D in DaemonName]?: Readonly<Record<string, string>> } = PATHS;
  return { ...COMMON_PATHS, ...own[daemon] };
}
