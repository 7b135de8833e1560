// Maps sandboxd's routes to runners, boxes and host features. A command's output is streamed, and
// the command is killed when its reader disconnects.
import { toTimestamp } from '../../platform/clock.ts';
import { type Handlers, RawReply } from '../../platform/dispatch.ts';
import type { LiveFeed } from '../../platform/live-feed.ts';
import { cutPage, readNumberCursor } from '../../platform/page.ts';
import type { RunId } from '../../wire/primitives.ts';
import type { FileRequestInput } from '../../wire/sandboxd/files.ts';
import type { BoxView, Collected, CommandEvent, sandboxdRoutes } from '../../wire/sandboxd.ts';
import type { SandboxCommand } from './adapters/warden.ts';
import type { BoxTable } from './boxes.ts';
import { toCommandEnd, wardenGoneFault } from './command-end.ts';
import type { Identities } from './identities.ts';
import type { KeptHomes } from './kept-homes.ts';
import { makeLayerHandlers } from './layer-handlers.ts';
import type { LayerProbe } from './layer-probe.ts';
import type { LayerService } from './layer-service.ts';
import type { Layers } from './layers.ts';
import type { Levels } from './levels.ts';
import { makeShowOutput, type ShowOutput } from './live-output.ts';
import type { BoxPrograms } from './programs.ts';
import type { RunEnds } from './run-ends.ts';
import type { Runners } from './runners.ts';
import type { BoxRow, SandboxdStore } from './store.ts';
import type { TreeFileService } from './tree-files.ts';
import type { Workspaces } from './workspaces.ts';

const WRITING_OPS: ReadonlySet<FileRequestInput['op']> = new Set(['write', 'mkdir']);

export type SandboxdDeps = {
  runners: Runners;
  programs: BoxPrograms;
  keptHomes: Pick<KeptHomes, 'remove'>;
  runEnds: RunEnds;
  boxes: BoxTable;
  levels: Pick<Levels, 'view'>;
  identities: Pick<Identities, 'mode' | 'nobody'>;
  workspaces: Pick<Workspaces, 'check' | 'release'>;
  layers: Pick<Layers, 'assertAvailable' | 'fork'>;
  layerProbe: LayerProbe;
  layerService: LayerService;
  treeFiles: Pick<TreeFileService, 'prune'>;
  feed: LiveFeed;
  store: Pick<SandboxdStore, 'list' | 'rangeUse' | 'listTreeFiles' | 'fileSizes' | 'listDisarmed'>;
  ranges: Parameters<SandboxdStore['rangeUse']>[0];
};

export function makeHandlers(deps: SandboxdDeps): Handlers<typeof sandboxdRoutes> {
  const { runners, programs, runEnds, boxes, levels, identities, workspaces, store, feed } = deps;
  const toRunnerKey = (
    id: RunId,
    query: { fence: number; mode?: 'live' | 'replay' | undefined },
  ) => ({
    runId: id,
    fence: query.fence,
    mode: query.mode ?? 'live',
  });
  return {
    ...makeLayerHandlers(deps.layerService, deps.layers, deps.layerProbe),
    features: () => levels.view(),
    watchLive: async ({ query, signal }) => feed.watch(query, signal),
    async identity() {
      const { mode, nobody } = identities;
      const ranges = await store.rangeUse(deps.ranges);
      return { identity: mode, uid: mode === 'single' ? nobody.uid : null, ranges };
    },
    async checkWorkspace({ body }) {
      await workspaces.check(body.path);
      if (body.mode === 'layer') await deps.layers.assertAvailable();
      return { path: body.path };
    },
    releaseWorkspace: ({ params }) => workspaces.release(params.id),
    async listTreeFiles({ query }) {
      const { kind, after = '', limit } = query;
      const trees = await store.listTreeFiles(kind, after, limit);
      return {
        trees: trees.map(({ rootTaskId, createdMs, bytes }) => ({
          root_task_id: rootTaskId,
          created_at: toTimestamp(createdMs),
          bytes,
        })),
      };
    },
    pruneTreeFiles: ({ params, query }) => deps.treeFiles.prune(params.id, query.kind),
    fileSizes: async () => ({ sizes: await store.fileSizes() }),
    async listBoxes({ query }) {
      const { limit, open } = query;
      const before = readNumberCursor(query.cursor) ?? Number.MAX_SAFE_INTEGER;
      const only = open === undefined ? undefined : open === 'true';
      const found = await store.list({ before, limit: limit + 1, open: only });
      const { rows, cursor } = cutPage(found, limit, ({ place }) => place);
      return { boxes: rows.map(toBoxView), cursor };
    },
    async listDisarmed({ query }) {
      const files = await store.listDisarmed(query.root_task_id, query.limit);
      return {
        disarmed: files.map((file) => ({
          id: file.id,
          task_id: file.taskId,
          agent: file.agent,
          path: file.path,
          kind: file.kind,
          sha256: file.sha256,
          mode: file.mode,
          link_target: file.linkTarget,
          kept_at: file.kept,
          disarmed_at: toTimestamp(file.disarmedMs),
        })),
      };
    },
    startRunner({ body }) {
      // Boxes of earlier activations, and their commands, end before this activation starts.
      if (body.mode === 'live') boxes.closeEarlier(body.run_id, body.fence);
      return runners.start(body);
    },
    runnerEnds: ({ query, signal }) => runEnds.ends(query, signal),
    tellRunner: async ({ params, query, body }) => ({
      told: runners.sendLine(toRunnerKey(params.id, query), body.line),
    }),
    async endRunner({ params, query }) {
      const key = toRunnerKey(params.id, query);
      return { ended: (await runners.end(key)) || (await programs.end(key)) };
    },
    endRunners: async () => ({ ended: (await runners.endAll()) + (await programs.endAll()) }),
    startProgram: async ({ params, body }) => programs.prepare(params.id, body),
    attachProgram: ({ params, body }) => programs.attach(params.id, body.token),
    execProgram: ({ params, body, caller }) => programs.exec(params.id, body, caller.principal),
    removeHome: ({ params, caller }) => deps.keptHomes.remove(params.id, caller.principal),
    async openBox({ params, body, signal }) {
      const view = await boxes.open(params.id, body);
      // The caller never learns of the box, so it would not close it.
      if (signal.aborted) await boxes.close(params.id);
      return view;
    },
    async execBox({ params, body, signal }) {
      const show = makeShowOutput(feed, boxes.ownerOf(params.id), body);
      const command = await boxes.exec(params.id, body, signal);
      return respond(command, { isCollected: body.collect === true, show }, signal);
    },
    boxFiles: ({ params, body }) => boxes.files(params.id, body, WRITING_OPS.has(body.op)),
    closeBox: async ({ params }) => ({ closed: await boxes.close(params.id) }),
    closeBoxes: async () => ({ closed: await boxes.closeAll() }),
    async runOnce({ body, signal }) {
      const command = await boxes.runOnce(body, signal);
      const show = makeShowOutput(feed, body, body);
      return respond(command, { isCollected: body.collect === true, show }, signal);
    },
  };
}

function respond(
  command: SandboxCommand,
  { isCollected, show }: { isCollected: boolean; show: ShowOutput | undefined },
  signal: AbortSignal,
): Promise<Collected> | RawReply {
  const onAbort = (): void => command.kill();
  // The event does not fire if the caller disconnected during the start.
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  void command.ended.then(() => signal.removeEventListener('abort', onAbort));
  if (isCollected) return collect(command, show);
  const headers = { 'content-type': 'application/x-ndjson' };
  return new RawReply({ status: 200, headers, body: streamLines(command) });
}

async function* streamLines(command: SandboxCommand): AsyncGenerator<string> {
  const line = (event: CommandEvent): string => `${JSON.stringify(event)}\n`;
  try {
    for await (const { stream, bytes } of command.readOutput()) {
      const text = bytes.toString('base64');
      yield line(stream === 'stdout' ? { stdout: text } : { stderr: text });
    }
    const exit = await command.ended;
    if (exit === 'gone') yield line({ error: { ...wardenGoneFault().toBody() } });
    else yield line({ end: toCommandEnd(exit) });
  } finally {
    command.kill();
  }
}

async function collect(command: SandboxCommand, show?: ShowOutput): Promise<Collected> {
  const collected: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
  for await (const { stream, bytes } of command.readOutput()) {
    collected[stream].push(bytes);
    show?.(stream, bytes);
  }
  const exit = await command.ended;
  if (exit === 'gone') throw wardenGoneFault();
  return {
    ...toCommandEnd(exit),
    stdout_base64: Buffer.concat(collected.stdout).toString('base64'),
    stderr_base64: Buffer.concat(collected.stderr).toString('base64'),
  };
}

function toBoxView(row: BoxRow): BoxView {
  return {
    id: row.id,
    kind: row.kind,
    level: row.level,
    run_id: row.run_id,
    fence: Number(row.fence),
    agent: row.agent,
    task_id: row.task_id,
    uid: Number(row.uid),
    opened_at: toTimestamp(Number(row.opened_ms)),
    closed_at: row.closed_ms === null ? null : toTimestamp(Number(row.closed_ms)),
    ended_by: row.ended_by,
  };
}
