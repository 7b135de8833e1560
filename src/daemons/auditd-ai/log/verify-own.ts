// Verifies the log of this runtime: continues from the last verification, which verified.json
// describes, and hashes everything if `isFull`, if that file does not fit the log, or if the log
// has a problem.
import { readVerified, VERIFIED_FILE, type VerifiedLog } from './verified-file.ts';
import { runVerification } from './verify.ts';
import type { VerifyOptions, VerifyReport } from './verify-report.ts';

export type OwnVerifyOptions = VerifyOptions & { isFull: boolean; nowMs: number };
/** `verified` is what verified.json should become. */
export type OwnVerifyResult = { report: VerifyReport; verified: VerifiedLog | undefined };

export async function verifyOwnLog(options: OwnVerifyOptions): Promise<OwnVerifyResult> {
  const { earlier, remark } = readEarlier(options.dir);
  const at = new Date(options.nowMs).toISOString();
  if (earlier === undefined || options.isFull) return verifyAll(options, { earlier, remark, at });
  const { report, verified } = await runVerification(options, { kept: [], resume: earlier });
  if (!report.ok) {
    const reason = report.problems[0]!.message;
    return verifyAll(options, { earlier, remark: `Everything was hashed: ${reason}.`, at });
  }
  return { report, verified: { ...earlier, ...verified, verified_at: at } };
}

type EarlierVerification = { earlier: VerifiedLog | undefined; remark: string | undefined };

function readEarlier(dir: string): EarlierVerification {
  try {
    return { earlier: readVerified(dir), remark: undefined };
  } catch (error) {
    const remark = `${VERIFIED_FILE} was not used: ${(error as Error).message}.`;
    return { earlier: undefined, remark };
  }
}

async function verifyAll(
  options: VerifyOptions,
  { earlier, remark, at }: EarlierVerification & { at: string },
): Promise<OwnVerifyResult> {
  // A log that was cut back behind a checkpoint that was verified looks whole without it.
  const kept = earlier === undefined ? [] : [{ text: earlier.note, where: VERIFIED_FILE }];
  const { report, verified } = await runVerification(options, { kept });
  const remarks = remark === undefined ? report.remarks : [remark, ...report.remarks];
  return {
    report: { ...report, remarks },
    verified:
      verified === undefined ? undefined : { ...verified, format: 1, verified_at: at, full_at: at },
  };
}
