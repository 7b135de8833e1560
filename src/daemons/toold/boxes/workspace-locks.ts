// Locks workspaces while an approved call is performed: from the last preview until the call has
// ended, no other call writes to the files the person saw.
import { makePathLock } from '../../../platform/path-lock.ts';
import type { PolicySource } from '../../../policy/source.ts';
import { fault } from '../../../wire/errors.ts';
import type { Job } from '../attempts/job.ts';
import { findOwnPlace } from '../runs.ts';
import { WORKSPACE } from '../tools/box.ts';

export type WorkspaceLocks = {
  /** `hasWaited`: the lock was not free, so policy may have changed since. */
  during<T>(job: Job, call: LockedCall, work: (hasWaited: boolean) => Promise<T>): Promise<T>;
};
type LockedCall = { input: unknown; isApproved: boolean };

export function makeWorkspaceLocks(options: {
  policy: Pick<PolicySource, 'planAgentBox'>;
}): WorkspaceLocks {
  const { acquire: enter } = makePathLock();

  /** Workspace, home, shared writable paths, and paths the call would write. */
  const listPaths = async ({ run, tool }: Job, input: unknown): Promise<string[]> => {
    const { write, home } = await options.policy.planAgentBox(run.agent);
    const shared = write.filter((path) => path !== WORKSPACE && path !== home);
    const touched = (tool?.touches?.(input) ?? []).flatMap((touch) =>
      touch.action === 'file.write' && tool?.box === undefined ? [touch.path] : [],
    );
    const workspace = run.workspace === null || run.isLayered ? [] : [run.workspace];
    return [findOwnPlace(run), ...workspace, home, ...shared, ...touched];
  };

  return {
    async during(job, { input, isApproved }, work) {
      const { tool, signal } = job;
      const isExclusive = isApproved && tool?.previewsFiles === true;
      const changes =
        tool?.box === 'write' ||
        tool?.touches?.(input).some(({ action }) => action === 'file.write') === true;
      if (!isExclusive && !changes) return work(false);
      const places = await listPaths(job, input);
      const { hasWaited, release: leave } = await enter(
        { paths: places, exclusive: isExclusive },
        signal,
      ).catch(() => {
        throw fault('canceled', `${job.run.runId} was dismissed before ${job.callId} was done`);
      });
      try {
        return await work(hasWaited);
      } finally {
        leave();
      }
    },
  };
}
