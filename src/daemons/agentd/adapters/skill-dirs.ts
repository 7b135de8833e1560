// Reads and watches the directories of skills, and reads the files of one. Only regular files below
// a skill's folder exist for agents: links inside it are left out, so that no path leaves it.
import { statSync } from 'node:fs';
import { lstat, readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import { makeMutex } from '../../../platform/mutex.ts';
import { watchDir } from '../../../platform/watch-dir.ts';
import { fault } from '../../../wire/errors.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import { buildSkillLibrary, type SkillLibrary } from '../skills/library.ts';
import {
  readSkill,
  SKILL_FILE_BYTES_MAX,
  SKILL_NAME,
  type Skill,
  type SkillPlace,
  type SkillResult,
} from '../skills/skill-file.ts';
import type { LayeredRoots } from './persona-dirs.ts';
import { readTextFile } from './read-text.ts';

export type SkillFile = { path: string; size_bytes: number };
export type SkillDirs = {
  current(): SkillLibrary;
  rescan(): Promise<void>;
  listFiles(skill: Skill): Promise<SkillFile[]>;
  /** Throws `not_found` for a path that is none of its files. */
  readFile(skill: Skill, path: string): Promise<string>;
  close(): void;
};

const SKILLS_MAX = 1_000;
const FILES_MAX = 500;
const DEPTH_MAX = 8;
const POLL_INTERVAL_MS = 5_000;
const SETTLE_MS = 100;

type CachedSkill = { stamp: string; result: SkillResult | undefined; good: Skill | undefined };

export async function openSkillDirs(options: {
  roots: LayeredRoots;
  clock: Clock;
  log: Log;
}): Promise<SkillDirs> {
  const { roots, clock, log } = options;
  const withLock = makeMutex();
  let cache = new Map<string, CachedSkill>();
  let current = buildSkillLibrary(new Map(), []);

  const rescan = (): Promise<void> =>
    withLock(async () => {
      const { places, problems } = await listPlaces(roots);
      const next: typeof cache = new Map();
      let isSame = places.length === cache.size && problems.length === 0;
      for (const place of places) {
        const before = cache.get(place.file);
        const stamp = readStamp(place.file);
        if (before?.stamp === stamp) {
          next.set(place.file, before);
          continue;
        }
        isSame = false;
        const result = await readPlace(place);
        // A broken file leaves the version in force that was read before it.
        const good = result?.ok === true ? result.skill : result && before?.good;
        next.set(place.file, { stamp, result, good });
      }
      cache = next;
      if (!isSame || current.problems.length > 0) current = toLibrary(next, problems);
    });
  const watched = roots.map(({ dir }) =>
    watchDir({
      dir,
      clock,
      settleMs: SETTLE_MS,
      pollIntervalMs: POLL_INTERVAL_MS,
      onChange: () =>
        void rescan().catch((error: unknown) => log.error('reading skills failed', { error })),
    }),
  );
  await rescan();
  return {
    current: () => current,
    rescan,
    listFiles,
    async readFile(skill, path) {
      const files = await listFiles(skill);
      if (!files.some((file) => file.path === path))
        throw fault('not_found', `skill ${skill.name} has no file ${path}`, {
          hint: `It has: ${files.map((file) => file.path).join(', ') || 'only SKILL.md'}`,
        });
      const reading = await readTextFile(join(await realpath(skill.dir), path), {
        bytesMax: SKILL_FILE_BYTES_MAX,
        followLinks: false,
      });
      if (reading?.ok === true) return reading.text;
      const why = reading === undefined ? 'it is gone' : reading.problem.message;
      throw fault('bad_request', `${path} of skill ${skill.name} cannot be shown: ${why}`);
    },
    close() {
      for (const watcher of watched) watcher.close();
    },
  };
}

function toLibrary(
  cache: ReadonlyMap<string, CachedSkill>,
  problems: readonly FileProblem[],
): SkillLibrary {
  const skills = new Map<string, Skill>();
  const found = [...problems];
  for (const { result, good } of cache.values()) {
    if (result?.ok === true) found.push(...result.warnings);
    else if (result !== undefined) found.push(...withFallback(result.problems, good));
    if (good !== undefined) skills.set(good.name, good);
  }
  return buildSkillLibrary(skills, found);
}

function withFallback(problems: readonly FileProblem[], good: Skill | undefined): FileProblem[] {
  if (good === undefined) return [...problems];
  const note = `Until then skill ${good.name} stays as it was.`;
  return problems.map((problem, i) =>
    i === 0 ? { ...problem, hint: `${problem.hint} ${note}` } : problem,
  );
}

async function readPlace(place: SkillPlace): Promise<SkillResult | undefined> {
  const reading = await readTextFile(place.file, { bytesMax: SKILL_FILE_BYTES_MAX });
  if (reading === undefined) return undefined;
  if (!reading.ok) return { ok: false, problems: [reading.problem] };
  return readSkill(reading.text, place);
}

/** In the order of the layers, so that the last of equal names counts. */
async function listPlaces(
  roots: LayeredRoots,
): Promise<{ places: SkillPlace[]; problems: FileProblem[] }> {
  const places: SkillPlace[] = [];
  const problems: FileProblem[] = [];
  for (const { source, dir } of roots) {
    const names = await readdir(dir).catch(() => [] as string[]);
    for (const name of names.filter((entry) => !entry.startsWith('.')).sort()) {
      const folder = join(dir, name);
      const stats = statSync(folder, { throwIfNoEntry: false });
      if (stats?.isDirectory() !== true) continue;
      const file = join(folder, 'SKILL.md');
      if (!SKILL_NAME.test(name))
        problems.push({
          file: folder,
          line: null,
          message: 'its name is not that of a skill',
          hint: 'Use letters, digits, dots and dashes.',
        });
      else if (places.length < SKILLS_MAX) places.push({ name, source, dir: folder, file });
    }
  }
  return { places, problems };
}

function readStamp(file: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs, mode } = statSync(file, { bigint: true });
    return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs} ${mode}`;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Sorted paths of its regular files, without SKILL.md. */
async function listFiles({ dir }: Skill): Promise<SkillFile[]> {
  const files: SkillFile[] = [];
  const walk = async (at: string, depth: number): Promise<void> => {
    const entries = await readdir(join(dir, at), { withFileTypes: true }).catch(() => []);
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = at === '' ? entry.name : `${at}/${entry.name}`;
      if (entry.name.startsWith('.') || files.length >= FILES_MAX) continue;
      if (entry.isDirectory() && depth < DEPTH_MAX) await walk(path, depth + 1);
      else if (entry.isFile() && path !== 'SKILL.md')
        files.push({ path, size_bytes: (await lstat(join(dir, path))).size });
    }
  };
  await walk('', 1);
  return files;
}
