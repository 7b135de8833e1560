// Describes what a verification is given and what it found.
import type { ChainProblem } from './checkpoint-chain.ts';
import type { EventProblem } from './diagnose.ts';
import type { VerifiedLog } from './verified-file.ts';
import type { ArchiveProblem } from './verify-archived.ts';

export type VerifyOptions = {
  dir: string;
  /** Texts of checkpoints kept elsewhere; only these reveal a rewritten directory. */
  from?: readonly string[];
  /** Public keys kept elsewhere: one of them must have signed. */
  trustedKeys?: readonly string[];
  /** Where the archives of archived segments are, if these are to be hashed too. */
  archiveDir?: string | undefined;
  problemsMax?: number;
  onProgress?: (size: number) => void;
};

export type LogProblem = {
  kind:
    | EventProblem['kind']
    | ChainProblem['kind']
    | ArchiveProblem['kind']
    | 'torn'
    | 'malformed'
    | 'duplicate_id';
  seq: number | null;
  to_seq?: number;
  segment: string | null;
  line: number | null;
  message: string;
};

export type VerifyReport = {
  ok: boolean;
  origin: string | null;
  /** Number of events; `root` covers all of them. */
  size: number;
  root: string;
  /** Number of events that were hashed this time. */
  hashed: number;
  /** The events that an earlier verification covered and this one did not hash again. */
  verified_earlier: { events: number; at: string; full_at: string } | null;
  /** The events that are archived, and how many of them were hashed. */
  archived: { events: number; segments: number; hashed: number; locations: string[] };
  checkpoints_checked: number;
  /** Number of events that the newest good checkpoint covers, and that follow it. */
  signed_size: number;
  unsigned_tail: number;
  /** The keys that signed, in the order they took over. */
  keys: string[];
  problems: LogProblem[];
  /** `problems` lists only the first ones. */
  problems_total: number;
  remarks: string[];
};

/** The part of a verified log that the next verification need not hash again. */
export type VerifiedPart = Omit<VerifiedLog, 'format' | 'verified_at' | 'full_at'>;
export type VerifyResult = { report: VerifyReport; verified: VerifiedPart | undefined };
