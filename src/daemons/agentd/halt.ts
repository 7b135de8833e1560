// The kill switch: one command or one file ends every agent process, and none starts until it is
// lifted. It acts first and records after: a disk that takes nothing must not keep agents running.
import type { Log } from '../../platform/log.ts';
import type { HaltFile } from './adapters/halt-file.ts';
import type { AgentdStore } from './store/store.ts';

export type Halt = {
  /** Why everything is halted; undefined when it is not. */
  reason(): string | undefined;
  set(reason: string, by: string): Promise<number>;
  lift(by: string): Promise<void>;
  /** At start: what was in force goes on. */
  resume(): Promise<void>;
  /** Looks whether the file came or went without a command. */
  follow(): Promise<void>;
};

export type HaltParts = {
  store: AgentdStore;
  file: () => HaltFile;
  /** Ends every runner and says how many there were. */
  stopRunners: () => Promise<number>;
  log: Log;
};

const RECORD_AGAIN_MS = 1_000;

export function makeHalt({ store, file, stopRunners, log }: HaltParts): Halt {
  let reason: string | undefined;

  const record = async (why: string, by: string): Promise<void> => {
    try {
      file().set(why);
      await store.setHalt(why, by);
    } catch (error) {
      log.error('the halt is in force but could not be recorded; trying again', { error });
      setTimeout(() => {
        if (reason !== undefined) void record(why, by);
      }, RECORD_AGAIN_MS).unref();
    }
  };

  const writeFile = (why: string): void => {
    try {
      file().set(why);
    } catch (error) {
      log.error('the halt file could not be written; runners are ended all the same', { error });
    }
  };

  const halt: Halt = {
    reason: () => reason,
    async set(why, by) {
      reason ??= why;
      // The warden looks at the file and ends every box, whether or not sandboxd answers.
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
      reason = (await store.halt())?.reason ?? file().present();
      if (reason !== undefined) await record(reason, 'service:agentd');
    },
    async follow() {
      const inFile = file().present();
      if (inFile !== undefined && reason === undefined) {
        log.warn('halted by the file HALT', { reason: inFile });
        await halt.set(inFile, 'person:file');
      } else if (
        inFile === undefined &&
        reason !== undefined &&
        (await store.halt()) !== undefined
      ) {
        // Only a halt that was recorded, file and all, is lifted by taking the file away.
        log.warn('the file HALT is gone; going on');
        await halt.lift('person:file');
      }
    },
  };
  return halt;
}
