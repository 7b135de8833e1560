// What sandboxd does, job by job: runners and boxes have lives of their own (runners.ts, boxes.ts);
// here is where the one concerns the other.
import type { StartRunnerBody } from '../../wire/sandboxd.ts';
import type { Boxes } from './boxes.ts';
import type { Identities } from './identities.ts';
import type { Levels } from './levels.ts';
import type { Runners } from './runners.ts';
import type { Workspaces } from './workspaces.ts';

export type Service = {
  runners: Omit<Runners, 'start'>;
  boxes: Omit<Boxes, 'closeEarlier'>;
  levels: Pick<Levels, 'view'>;
  identities: Pick<Identities, 'mode' | 'nobody'>;
  workspaces: Pick<Workspaces, 'check'>;
  startRunner(body: StartRunnerBody): ReturnType<Runners['start']>;
  /** Nothing of what was started here is there afterwards. */
  stop(): Promise<void>;
};

export function makeService(
  parts: Pick<Service, 'levels' | 'identities' | 'workspaces'> & {
    runners: Runners;
    boxes: Boxes;
  },
): Service {
  const { runners, boxes } = parts;
  return {
    ...parts,
    startRunner(body) {
      // What an earlier activation opened is not this one's: its commands end before this begins.
      if (body.mode === 'live') boxes.closeEarlier(body.run_id, body.fence);
      return runners.start(body);
    },
    async stop() {
      await runners.endAll();
      await boxes.closeAll();
    },
  };
}
