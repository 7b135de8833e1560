// Fuzzes the keeper's parser of grant requests under the sanitizers, and compares its rules with
// agentctl's: a directory is refused by both or by neither.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { assertGrantable } from '../../src/clients/agentctl/grants/rules.ts';
import { Fault } from '../../src/wire/errors.ts';
import { buildGrantFuzzer } from './support/warden.ts';

const OWN = ['/var/tmp/state', '/tmp/r/abc', '/tmp/r/abc.warden'];
const PASSWD = [
  'root:x:0:0:root:/root:/bin/bash',
  'daemon:x:1:1::/usr/sbin:/usr/sbin/nologin',
  'nobody:x:65534:65534::/nonexistent:/bin/false',
  'alice:x:1000:1000:Alice:/home/alice/:/bin/bash',
  'deploy:x:1001:1001::/srv/deploy/home:/bin/sh',
  'broken',
  'slash:x:1002:1002::/:/bin/sh',
  'short:x:1:1::/data',
].join('\n');
const REFUSED = (
  '/ /home /home/alice /home/nobody-knows /root /etc /etc/ssl /proc/1 /usr/local/x /boot /var ' +
  '/var/lib/pgsql /var/log /var/tmp /tmp /srv /srv/deploy /srv/deploy/home /data /opt /mnt ' +
  '/run/user/1000 /nonexistent /var/tmp/state /var/tmp/state/workspaces /tmp/r /tmp/r/abc ' +
  '/tmp/r/abc.warden/x'
).split(' ');
const ALLOWED = (
  '/home/alice/repo /home/alice/a/b /srv/deploy/home/app /srv/other /data/x /database /opt/app ' +
  '/mnt/disk /tmp/x /tmp/r/abcd /tmp/r/other /var/tmp/state2 /var/www /etcetera /usrlocal ' +
  '/homes/alice /nonexistent2'
).split(' ');

describe('a request for a grant', () => {
  it('is parsed without reading past it, under the sanitizers', async (t) => {
    const seconds = process.env.FUZZ === 'long' ? 300 : 20;
    const random = String(Date.now());
    t.diagnostic(`random seed ${random}`);
    const { stdout } = await promisify(execFile)(buildGrantFuzzer(), [String(seconds), random]);
    assert.ok(Number.parseInt(stdout, 10) > 1000, stdout);
    t.diagnostic(stdout.trim());
  });

  it('is refused by the keeper and by agentctl for the same directories', () => {
    const all = [...REFUSED, ...ALLOWED];
    const stdout = execFileSync(buildGrantFuzzer(), ['rules', PASSWD], {
      input: `${all.join('\n')}\n`,
      encoding: 'utf8',
    });
    const byKeeper = new Map(
      stdout
        .trim()
        .split('\n')
        .map((line) => [line.slice(2), line[0]]),
    );
    for (const path of all) {
      const expected = REFUSED.includes(path);
      assert.equal(byKeeper.get(path), expected ? '1' : '0', `${path} by the keeper`);
      assert.equal(refusedByAgentctl(path), expected, `${path} by agentctl`);
    }
  });
});

/** A directory that does not exist is only not found. */
function refusedByAgentctl(path: string): boolean {
  try {
    assertGrantable(path, { own: OWN, owner: undefined, passwd: PASSWD });
    return false;
  } catch (error) {
    if (error instanceof Fault) return error.code === 'denied';
    throw error;
  }
}
