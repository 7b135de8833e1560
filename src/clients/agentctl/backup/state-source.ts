// Defines the source of a backup's databases and log, which must be of one instant: a running
// runtime (freeze.ts), or the files of a stopped one (stopped-state.ts).
import type { Chunks } from './backup-dir.ts';
import type { BackupHeader } from './manifest.ts';

export type DatabaseSource = { name: string; chunks: Chunks };

/** `content`: read whole. Else a descriptor, of which the first `sizeBytes` are meant. */
export type LogSource = { name: string; mode: number } & (
  | { content: Buffer }
  | { fd: number; sizeBytes: number }
);

export type SealedSource = { name: string; fd: number };

export type StateSource = {
  readonly takenAtMs: number;
  readonly isRunning: boolean;
  readonly checkpoint: BackupHeader['checkpoint'];
  /** Yields one at a time; each must be read before the next. */
  readDatabases(signal: AbortSignal): AsyncGenerator<DatabaseSource>;
  readonly log: readonly LogSource[];
  /** Sealed segments; open, since they may be archived meanwhile. */
  readonly sealed: readonly SealedSource[];
  close(): Promise<void>;
};
