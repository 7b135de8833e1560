// Test helper: a sandboxd whose boxes are all the given one, so that toold is tested with its real
// tools and files. The escape tests cover what a box keeps out.
import { egressdRoutes } from '../../../wire/egressd.ts';
import { fault } from '../../../wire/errors.ts';
import {
  BOX_NOT_OPEN,
  type Collected,
  type ExecBody,
  sandboxdRoutes,
} from '../../../wire/sandboxd.ts';
import type { Box, ExecResult } from '../tools/box.ts';
import { dispatchOf } from './peers.ts';

const { openBox, execBox, boxFiles, closeBox, closeBoxes, runOnce } = sandboxdRoutes;
const usedRoutes = { openBox, execBox, boxFiles, closeBox, closeBoxes, runOnce };

const notOpen = (id: string) =>
  fault('not_found', `there is no box ${id}`, { details: { reason: BOX_NOT_OPEN } });

export type FakeSandboxd = ReturnType<typeof fakeSandboxd>;

export function fakeSandboxd(box: Box) {
  const open = new Map<string, AbortController>();
  const opened: unknown[] = [];
  const exec = async (body: ExecBody, signal: AbortSignal): Promise<Collected> => {
    const { argv, cwd, env, stdin_base64, limits } = body;
    const done = await box.exec({
      argv,
      signal,
      ...(cwd === undefined ? {} : { cwd }),
      ...(env === undefined ? {} : { env }),
      ...(stdin_base64 === undefined ? {} : { stdin: Buffer.from(stdin_base64, 'base64') }),
      ...(limits?.wall_ms === undefined ? {} : { wallMs: limits.wall_ms }),
      ...(limits?.output_bytes === undefined ? {} : { outputBytesMax: limits.output_bytes }),
    });
    return collected(done);
  };
  const dispatch = dispatchOf('sandboxd', usedRoutes, {
    async openBox({ params, body }) {
      open.set(params.id, new AbortController());
      opened.push(body.rules);
      const { workspace, home } = box.roots;
      return {
        box_id: params.id,
        workspace,
        home,
        uid: 0,
        gid: 0,
        level: 'L2' as const,
        missing: [],
      };
    },
    async execBox({ params, body, signal }) {
      const found = open.get(params.id);
      if (found === undefined) throw notOpen(params.id);
      return exec(body, AbortSignal.any([signal, found.signal]));
    },
    async boxFiles({ params, body }) {
      if (!open.has(params.id)) throw notOpen(params.id);
      return box.files.perform(body);
    },
    async closeBox({ params }) {
      open.get(params.id)?.abort();
      return { closed: open.delete(params.id) };
    },
    closeBoxes: async () => ({ closed: 0 }),
    runOnce: ({ body, signal }) => exec(body, signal),
  });
  return { dispatch, open, opened };
}

/** An egressd where no run has an egress session. */
export function fakeEgressd() {
  const { getEgress } = egressdRoutes;
  return dispatchOf(
    'egressd',
    { getEgress },
    {
      async getEgress({ params }) {
        throw fault('not_found', `${params.id} has no egress session`);
      },
    },
  );
}

function collected(done: ExecResult): Collected {
  return {
    exit_code: done.exitCode,
    signal: null,
    ended_by: done.endedBy === 'policy' ? 'killed' : done.endedBy,
    stdout_base64: done.stdout.toString('base64'),
    stderr_base64: done.stderr.toString('base64'),
    usage: {
      wall_ms: Math.round(done.wallMs),
      cpu_ms: 0,
      memory_peak_bytes: 0,
      stdout_bytes: done.stdout.length,
      stderr_bytes: done.stderr.length,
    },
  };
}
