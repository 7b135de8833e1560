// The kill switch: one command or one file ends every agent process, and none starts until it is
// lifted. The file and the record follow each other, whichever was there first.
import type { Log } from '../../platform/log.ts';
import type { HaltFile } from './adapters/halt-file.ts';
import type { Store } from './store/store.ts';

export type Halt = {
  set(reason: string, by: string): Promise<number>;
  lift(by: string): Promise<void>;
  /** The file came or went without a command. */
  follow(): Promise<void>;
};

export function makeHalt({
  store,
  file,
  log,
}: {
  store: Store;
  file: () => HaltFile;
  log: Log;
}): Halt {
  return {
    async set(reason, by) {
      file().set(reason);
      return store.setHalt(reason, by);
    },
    async lift(by) {
      file().lift();
      await store.liftHalt(by);
    },
    async follow() {
      const reason = file().present();
      const halted = await store.halt();
      if (reason !== undefined && halted === undefined) {
        log.warn('halted by the file HALT', { reason });
        await store.setHalt(reason, 'person:file');
      } else if (reason === undefined && halted !== undefined) {
        log.warn('the file HALT is gone; going on');
        await store.liftHalt('person:file');
      }
    },
  };
}
