// The section `retention`: its defaults, its units, and what it rejects.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { Fault } from '../wire/errors.ts';
import { loadConfig } from './config.ts';
import { retentionConfig } from './retention-config.ts';

const DAY_MS = 86_400_000;
const dir = mkdtempSync(join(tmpdir(), 'agentd-retention-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const load = (text: string) => {
  const file = join(dir, 'agentd.yaml');
  writeFileSync(file, text);
  return loadConfig(file, { retention: retentionConfig }).retention;
};

describe('the section retention', () => {
  it('has an age and a size for every kind', () => {
    const config = load('');
    assert.deepEqual(config.tasks, { age: 365 * DAY_MS, size: 50 * 2 ** 30 });
    assert.deepEqual(config.artifacts, { age: 365 * DAY_MS, size: 50 * 2 ** 30 });
  });

  it('takes days, hours, never; sizes in powers of 1024, unlimited', () => {
    const config = load(
      'retention: { tasks: { age: 12h, size: 3MB }, artifacts: { age: never, size: unlimited } }',
    );
    assert.deepEqual(config.tasks, { age: DAY_MS / 2, size: 3 * 2 ** 20 });
    assert.deepEqual(config.artifacts, { age: null, size: null });
    assert.equal(config.tombstones.age, 3_650 * DAY_MS, 'the others keep their defaults');
  });

  for (const [text, message, hint] of [
    ['{ tasks: { age: 90 } }', /retention\.tasks\.age/, ''],
    ['{ tasks: { age: 0d } }', /must be an age such as 90d or 12h, or never/, ''],
    ['{ tasks: { age: 99999d } }', /must be at most 36500d, or never/, ''],
    ['{ tasks: { size: 5K } }', /must be 1M or more/, ''],
    ['{ tasks: { size: 5 } }', /retention\.tasks\.size/, ''],
    ['{ taks: { age: 9d } }', /unknown key retention\.taks/, 'Did you mean tasks?'],
    ['{ audit: { archive_dir: archive } }', /must be an absolute path/, ''],
    ['{ tombstones: { size: 1G } }', /unknown key retention\.tombstones\.size/, ''],
  ] as const)
    it(`rejects ${text}`, () => {
      assert.throws(
        () => load(`retention: ${text}`),
        (error: Fault) => {
          assert.equal(error.code, 'bad_config');
          assert.match(error.message, message);
          if (hint !== '') assert.equal(error.hint, hint);
          return true;
        },
      );
    });
});
