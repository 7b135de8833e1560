// Writes and reads the bundle file. agentd seals it with a hash; a document that does not match its
// hash is rejected.
import { readFileSync } from 'node:fs';
import { canonicalJson, sha256Hex } from '../platform/json.ts';
import { writeAtomically } from '../platform/state-dir.ts';
import {
  BUNDLE_FORMAT,
  type Bundle,
  type BundleContent,
  bundleProblem,
  pickContent,
} from './bundle.ts';

export type BundleResult = { ok: true; bundle: Bundle } | { ok: false; problem: string };

export const hashContent = (content: BundleContent): string =>
  sha256Hex(canonicalJson(pickContent(content)));

export function sealBundle(
  content: BundleContent,
  { version, madeAt }: { version: number; madeAt: string },
): Bundle {
  return {
    format: BUNDLE_FORMAT,
    version,
    hash: hashContent(content),
    made_at: madeAt,
    ...pickContent(content),
  };
}

export function writeBundle(file: string, bundle: Bundle): void {
  writeAtomically(file, `${JSON.stringify(bundle)}\n`);
}

/** Throws the file system's error when the file cannot be read. */
export function readBundle(file: string): BundleResult {
  const text = readFileSync(file, 'utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { ok: false, problem: `it is not JSON: ${(error as Error).message}` };
  }
  const problem = bundleProblem(value);
  if (problem !== undefined) return { ok: false, problem };
  const bundle = value as Bundle;
  if (hashContent(bundle) !== bundle.hash)
    return { ok: false, problem: 'its content does not match its hash' };
  return { ok: true, bundle };
}
