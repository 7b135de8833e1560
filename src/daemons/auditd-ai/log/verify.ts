// Verifies a log directory, or a copy of one, without trusting it: hashes every event again, checks
// every checkpoint against the hashes and the keys, and reports the problems. Only reads and needs
// no secret key. verification.ts does it; verify-own.ts continues from an earlier
// verification.
import fs from 'node:fs';
import { fault } from '../../../wire/errors.ts';
import { ARCHIVED_FILE, type ArchivedSegment, readArchived } from './archived-file.ts';
import { CheckpointChain, type KeptNote } from './checkpoint-chain.ts';
import { LeafFile } from './leaf-file.ts';
import { SegmentWalk } from './segment-walk.ts';
import { Verification } from './verification.ts';
import type { VerifiedLog } from './verified-file.ts';
import type { LogProblem, VerifyOptions, VerifyReport, VerifyResult } from './verify-report.ts';

type VerifyInternals = {
  kept: readonly KeptNote[];
  /** Continues after the events that were verified before. */
  resume?: VerifiedLog | undefined;
};

export async function verifyLog(options: VerifyOptions): Promise<VerifyReport> {
  return (await runVerification(options, { kept: [] })).report;
}

export async function runVerification(
  options: VerifyOptions,
  { kept, resume }: VerifyInternals,
): Promise<VerifyResult> {
  if (!fs.existsSync(options.dir)) throw fault('not_found', `directory ${options.dir} not found`);
  const from = (options.from ?? []).map((text, n) => ({ text, where: `kept checkpoint ${n + 1}` }));
  const chain = new CheckpointChain(options.dir, {
    kept: [...from, ...kept],
    trustedKeys: options.trustedKeys,
    resume,
  });
  const leaves = new LeafFile(options.dir);
  const { walk, ...archive } = openSegments(options.dir, resume);
  try {
    if (walk.stamps.length === 0 && chain.nextSize === Number.POSITIVE_INFINITY) {
      throw fault('not_found', `no audit log found in ${options.dir}`);
    }
    return await new Verification(options, { chain, leaves, walk, resume, ...archive }).run();
  } finally {
    walk.close();
    leaves.close();
  }
}

/** Opens again if a segment was archived, and so removed, between the two steps. */
function openSegments(dir: string, resume: VerifiedLog | undefined) {
  for (;;) {
    const before = readRecords(dir);
    const walk = new SegmentWalk(dir, resume?.position);
    if (readRecords(dir).records.length !== before.records.length) {
      walk.close();
      continue;
    }
    const names = new Set(walk.stamps.map(({ name }) => name));
    const left = before.records.findIndex(({ segment }) => names.has(segment));
    const archived = left < 0 ? before.records : before.records.slice(0, left);
    return { walk, archived, archivedProblem: before.problem };
  }
}

function readRecords(dir: string): {
  records: ArchivedSegment[];
  problem: LogProblem | undefined;
} {
  try {
    return { records: readArchived(dir), problem: undefined };
  } catch (error) {
    const { message } = error as Error;
    const where = { seq: null, segment: ARCHIVED_FILE, line: null };
    return { records: [], problem: { kind: 'changed', ...where, message } };
  }
}
