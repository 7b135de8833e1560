// agentctl backup prune: removes old backups from a directory, and the contents that no other one
// has, also those of backups and prunes that were interrupted.
import { readdirSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { assertBackupDir, listBackups, lockBackupDir, syncDir } from '../backup/backup-dir.ts';
import { readEntries } from '../backup/manifest.ts';
import type { Session } from '../command.ts';
import { formatSize, pluralize } from '../show/amounts.ts';

const KEEP_DEFAULT = 7;

export async function prune({ args, out }: Session): Promise<void> {
  const dir = resolve(args.positionals[0]!);
  const keep = args.number('keep') ?? KEEP_DEFAULT;
  const isDryRun = args.flag('dry-run');
  assertBackupDir(dir);
  const lock = lockBackupDir(dir);
  try {
    const finished = listBackups(dir).filter(({ isFinished }) => isFinished);
    const old = finished.slice(0, Math.max(0, finished.length - keep));
    // Read first: a damaged manifest must not make the contents it names look unused.
    const used = readUsed(finished.slice(old.length).map(({ file }) => file));
    // Manifests go before contents, so that none names what is gone.
    if (!isDryRun) for (const { file } of old) rmSync(file);
    if (!isDryRun) syncDir(join(dir, 'backups'));
    const freed = removeUnused(dir, used, isDryRun);
    const document = {
      removed: old.map(({ id }) => id),
      kept: finished.length - old.length,
      files: freed.files,
      size_bytes: freed.sizeBytes,
      dry_run: isDryRun,
    };
    out.print({ prune: document }, () => [
      `${pluralize(old.length, 'backup')} ${isDryRun ? 'would be removed' : 'removed'}: ` +
        `${pluralize(freed.files, 'file')}, ${formatSize(freed.sizeBytes)}; ` +
        `${pluralize(document.kept, 'backup')} kept`,
    ]);
  } finally {
    lock.release();
  }
}

function readUsed(manifests: readonly string[]): Set<string> {
  const used = new Set<string>();
  for (const file of manifests)
    for (const entry of readEntries(file)) if ('sha256' in entry) used.add(entry.sha256);
  return used;
}

function removeUnused(
  dir: string,
  used: ReadonlySet<string>,
  isDryRun: boolean,
): { files: number; sizeBytes: number } {
  const freed = { files: 0, sizeBytes: 0 };
  const objects = join(dir, 'objects');
  for (const name of readdirSync(objects, { recursive: true, encoding: 'utf8' })) {
    const hash = name.slice(name.lastIndexOf('/') + 1);
    if (!/^[0-9a-f]{64}$/.test(hash) || used.has(hash)) continue;
    const file = join(objects, name);
    freed.files += 1;
    freed.sizeBytes += statSync(file).size;
    if (!isDryRun) rmSync(file);
  }
  return freed;
}
