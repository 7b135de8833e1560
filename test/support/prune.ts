// Prunes as a person would, and waits for the end of the pass. Also makes files to prune.
import assert from 'node:assert/strict';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import type { PruneReport, StartPrune } from '../../src/wire/agentd.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { type Collected, sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { type Clients, eventually, type TestRuntime } from './runtime.ts';

export async function prune(clients: Clients, body: StartPrune): Promise<PruneReport> {
  const { prune: started } = await clients.agentd.startPrune({ body });
  return passEnded(clients, started.started_at);
}

/** The report of the last pass, when it has ended. */
export function passEnded(clients: Clients, startedAt?: string): Promise<PruneReport> {
  return eventually('the end of the pass', async () => {
    const query = startedAt === undefined ? {} : { started_at: startedAt };
    const { prune: report } = await clients.agentd.getPrune({ query });
    if (report === null || report.status === 'running') return undefined;
    return startedAt === undefined || report.started_at === startedAt ? report : undefined;
  });
}

export const findKind = (report: PruneReport, name: string) =>
  report.kinds.find(({ kind }) => kind === name)!;

let boxes = 0;

/** Runs a script in a tool box of this task tree, as toold would. */
export async function writeInBox(
  { runtimeDir }: Pick<TestRuntime, 'runtimeDir'>,
  rootTaskId: string,
  script: string,
  more: { agent?: string; keepOpen?: boolean; workspace_path?: string } = {},
): Promise<{ close(): Promise<unknown> }> {
  const { agent = 'coder', keepOpen = false, ...other } = more;
  const socketPath = socketPathFor(runtimeDir, 'sandboxd', 'peer-toold');
  const toold = makeClient(sandboxdRoutes, socketLink({ socketPath }));
  const params = { id: deriveId<BoxId>('box', rootTaskId, boxes++) };
  const id = rootTaskId as TaskId;
  await toold.openBox({
    params,
    body: {
      run_id: deriveId<RunId>('run', rootTaskId, boxes),
      fence: 1,
      agent,
      task_id: id,
      root_task_id: id,
      level: 'L2',
      rules: { read: [], write: ['/workspace', `/home/${agent}`], deny: [] },
      network: { egress_socket: null },
      ...other,
    },
  });
  const close = () => toold.closeBox({ params });
  try {
    const body = {
      call_id: deriveId<CallId>('call', rootTaskId, boxes++),
      argv: ['/bin/sh', '-c', script],
      collect: true,
    };
    const end = (await toold.execBox({ params, body })) as Collected;
    assert.equal(end.exit_code, 0, Buffer.from(end.stderr_base64, 'base64').toString());
  } finally {
    if (!keepOpen) await close();
  }
  return { close };
}
