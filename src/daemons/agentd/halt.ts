// The kill switch: a command or the file HALT ends every agent process, and none starts until it is
// lifted. It acts first and records afterwards, so a full disk cannot keep agents running.
import type { Log } from '../../platform/log.ts';
import type { HaltFile } from './adapters/halt-file.ts';
import type { AgentdStore } from './store/store.ts';

export type Halt = {
  /** Returns undefined while not halted. */
  reason(): string | undefined;
  set(reason: string, by: string): Promise<number>;
  lift(by: string): Promise<void>;
  /** Restores the recorded halt at startup. */
  resume(): Promise<void>;
  /** Halts if the file appeared, lifts the halt if it was removed. */
  checkFile(): Promise<void>;
};

export type HaltDeps = {
  store: AgentdStore;
  file: () => HaltFile;
  /** Ends every runner and returns how many there were. */
  stopRunners: () => Promise<number>;
  log: Log;
};

const RETRY_DELAY_MS = 1_000;

export function makeHalt({ store, file, stopRunners, log }: HaltDeps): Halt {
  let reason: string | undefined;

  const record = async (why: string, by: string): Promise<void> => {
    try {
      file().set(why);
      await store.setHalt(why, by);
    } catch (error) {
      log.error('recording the halt failed; it is in force, retrying', { error });
      setTimeout(() => {
        if (reason !== undefined) void record(why, by);
      }, RETRY_DELAY_MS).unref();
    }
  };

  const writeFile = (why: string): void => {
    try {
      file().set(why);
    } catch (error) {
      log.error('writing the halt file failed; runners are ended anyway', { error });
    }
  };

  const halt: Halt = {
    reason: () => reason,
    async set(why, by) {
      reason ??= why;
      // The warden watches the file and ends every box, even if sandboxd does not respond.
      writeFile(why);
      const stopped = await stopRunners();
      await record(why, by);
      return stopped;
    },
    async lift(by) {
      file().lift();
      reason = undefined;
      await store.liftHalt(by);
    },
    async resume() {
      reason = (await store.halt())?.reason ?? file().readReason();
      if (reason !== undefined) await record(reason, 'service:agentd');
    },
    async checkFile() {
      const inFile = file().readReason();
      if (inFile !== undefined && reason === undefined) {
        log.warn('halted by the file HALT', { reason: inFile });
        await halt.set(inFile, 'person:file');
      } else if (
        inFile === undefined &&
        reason !== undefined &&
        (await store.halt()) !== undefined
      ) {
        // A halt that is not yet recorded may have no file; only a recorded one is lifted this way.
        log.warn('resumed: the file HALT was removed');
        await halt.lift('person:file');
      }
    },
  };
  return halt;
}
