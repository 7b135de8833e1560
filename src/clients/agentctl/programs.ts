// Finds the other programs: beside this bundle once built, in the source tree otherwise.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { fault } from '../../wire/errors.ts';

const SOURCES = {
  embedded: '../../entry/embedded.ts',
  split: '../../entry/split.ts',
  'as-root': '../../entry/as-root.ts',
  'host-check': '../../entry/host-check.ts',
  'audit-verify': '../../daemons/auditd-ai/verify-main.ts',
} as const;

const isBundled = !import.meta.url.endsWith('.ts');

export function findProgram(name: keyof typeof SOURCES): string {
  const url = new URL(isBundled ? `./${name}.mjs` : SOURCES[name], import.meta.url);
  const path = fileURLToPath(url);
  if (!existsSync(path)) {
    throw fault('bad_config', `program ${name} not found (${path})`, {
      hint: 'Build it: make build',
    });
  }
  return path;
}

/**
 * The C programs: one keeps root privileges away from the daemons, one restarts the runtime, one
 * reads and writes the marks of layers.
 */
export function findNative(name: 'keeper' | 'supervisor' | 'overlay-marks'): string {
  const url = new URL(isBundled ? `./${name}` : `../../../build/${name}`, import.meta.url);
  const path = fileURLToPath(url);
  if (!existsSync(path))
    throw fault('bad_config', `program ${name} not found (${path})`, {
      hint: 'Build it: make native (needs cc)',
    });
  return path;
}

/** Where presets and personas lie: the parent of build/ or src/. */
export function findPackageDir(): string {
  for (const place of ['.', '..', '../../..']) {
    const path = fileURLToPath(new URL(place, import.meta.url));
    if (existsSync(`${path}/presets`)) return path;
  }
  throw fault('bad_config', 'the directory presets of the package not found');
}

export function readOwnVersion(): string {
  for (const place of ['./package.json', '../package.json', '../../../package.json']) {
    try {
      const text = readFileSync(new URL(place, import.meta.url), 'utf8');
      const { name, version } = JSON.parse(text) as { name?: string; version?: string };
      if (name === 'agentd' && version !== undefined) return version;
    } catch {
      // Try the next path.
    }
  }
  return 'unknown';
}
