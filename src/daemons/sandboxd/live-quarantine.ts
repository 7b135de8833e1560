// Moves one armed file out of a directory that agents change in place, and keeps its content and a
// record, so that the person can restore it.
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { posix } from 'node:path';
import type { Log } from '../../platform/log.ts';
import { APPLY_KINDS } from '../../policy/apply-kinds.ts';
import { type ArmedFile, isHarmless, needsArmedText } from '../../policy/armed-git.ts';
import { Fault } from '../../wire/errors.ts';
import type { BoxfsClient } from './adapters/boxfs-client.ts';
import type { FoundFile } from './adapters/boxfs-watch.ts';
import type { LivePlace } from './live-rows.ts';
import { WORKSPACE } from './rules.ts';
import type { SandboxdStore } from './store.ts';

export type Disarmed = { path: string; title: string };

type DisarmContext = {
  client: BoxfsClient;
  place: LivePlace;
  repositories: ReadonlySet<string>;
  store: Pick<SandboxdStore, 'addDisarmed'>;
  quarantine: string;
  log: Log;
};

const KEPT_BYTES_MAX = 64 * 1024 * 1024;
/** Settings that people have are far smaller. */
const SETTINGS_BYTES_MAX = 256 * 1024;

const isReason = (error: unknown, ...reasons: readonly string[]): boolean =>
  error instanceof Fault && reasons.includes(String(error.details?.reason));

type Content = { bytes: Buffer; sha256: string | null };

async function readAll(client: BoxfsClient, path: string, bytesMax: number): Promise<Content> {
  const first = await client.performExactly({ op: 'read', path });
  const { sha256, size_bytes } = first;
  if (size_bytes > bytesMax) return { bytes: Buffer.alloc(0), sha256 };
  const parts = [Buffer.from(first.content, first.encoding)];
  for (let at = first.bytes; at < size_bytes; ) {
    const part = await client.performExactly({ op: 'read', path, offset: at, hash: false });
    if (part.bytes === 0) break;
    parts.push(Buffer.from(part.content, part.encoding));
    at = part.offset + part.bytes;
  }
  return { bytes: Buffer.concat(parts), sha256 };
}

/** `gone`: it is not there any more, or is another file, which the next look finds. */
export async function disarm(
  armed: ArmedFile<FoundFile>,
  context: DisarmContext,
): Promise<Disarmed | 'harmless' | 'gone'> {
  const { file, kind } = armed;
  const { client, place } = context;
  const path = posix.join(WORKSPACE, file.path);
  try {
    if (needsArmedText(armed) && file.sizeBytes <= SETTINGS_BYTES_MAX) {
      await client.unlock(path, file.parentId);
      const { bytes } = await readAll(client, path, SETTINGS_BYTES_MAX);
      if (isHarmless(armed, bytes.toString('utf8'), context.repositories)) return 'harmless';
    }
    await client.unlock(path, file.parentId);
    const content = file.type === 'file' ? await readAll(client, path, KEPT_BYTES_MAX) : undefined;
    const id = `dis_${randomUUID().replaceAll('-', '')}`;
    const isKept = content !== undefined && (content.bytes.length > 0 || file.sizeBytes === 0);
    await context.store.addDisarmed(place, {
      id,
      path: file.path.toWellFormed(),
      kind,
      sha256: content?.sha256 ?? null,
      mode: file.mode,
      linkTarget: file.type === 'link' ? file.linkTarget.toWellFormed() : null,
      kept: isKept ? keep(context, id, content.bytes) : null,
    });
    const expected = content?.sha256 ?? undefined;
    await client.performExactly({
      op: 'delete',
      path,
      expected_parent: file.parentId,
      ...(expected === undefined ? {} : { expected_sha256: expected }),
    });
    context.log.warn('removed a file that git would run or follow', {
      task: place.rootTaskId,
      path: posix.join(place.path, file.path),
      kind,
    });
    return { path: file.path, title: APPLY_KINDS.get(kind)!.title };
  } catch (error) {
    if (isReason(error, 'not_found', 'conflict', 'not_directory', 'is_directory', 'is_link'))
      return 'gone';
    throw error;
  }
}

function keep({ quarantine, place }: DisarmContext, id: string, bytes: Buffer): string {
  const dir = posix.join(quarantine, place.rootTaskId);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const kept = posix.join(dir, id);
  writeFileSync(kept, bytes, { mode: 0o600, flag: 'wx' });
  return kept;
}
