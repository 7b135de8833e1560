// Random frames at the warden's socket while a command runs, on a terminal or on pipes, under the
// sanitizers: sizes, input, signals, frames out of place, garbage. The warden survives, leaves
// nothing, and serves the next client.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { encodePlan } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { type Seeded, seeded } from '../support/seeded.ts';
import { exited } from './support/cases.ts';
import { MODES, NOTHING, TestWarden } from './support/warden.ts';
import { frame } from './support/warden-client.ts';

const seed = process.env.FUZZ_SEED ?? String(Date.now());
const ROUNDS = process.env.FUZZ === 'long' ? 5_000 : 150;
const RESPONSE_MS_MAX = 20_000;

const STDIN = 2;
const STDIN_END = 3;
const SIGNAL = 4;
const KILL = 5;
const WINSIZE = 12;
const FRAMES_MAX = 24;

/** Mostly what a client may send while its command runs; all of it is within the window. */
function anyFrame(rnd: Seeded): Buffer {
  const roll = rnd.int(100);
  if (roll < 35) return frame(WINSIZE, rnd.bytes(rnd.pick([4, 4, 4, 4, 0, 3])));
  if (roll < 65) return frame(STDIN, rnd.bytes(rnd.int(1_000)));
  if (roll < 80) return frame(SIGNAL, rnd.bytes(rnd.pick([1, 1, 1, 0])));
  if (roll < 85) return frame(STDIN_END);
  if (roll < 88) return frame(rnd.int(256), rnd.bytes(rnd.int(40)));
  if (roll < 90) return frame(WINSIZE, rnd.bytes(5 + rnd.int(60)));
  if (roll < 92) return rnd.bytes(1 + rnd.int(40));
  if (roll < 94) return frame(STDIN, rnd.bytes(65_536));
  return frame(WINSIZE, Buffer.from([80, 0, 24, 0]));
}

const COMMANDS = [
  ['/bin/cat'],
  ['/bin/sh', '-c', 'trap : INT TERM HUP QUIT WINCH; while read x; do echo "$x"; done'],
  ['/bin/sh', '-c', 'stty raw 2>/dev/null; exec cat'],
  ['/bin/true'],
];

for (const mode of MODES) {
  describe(`frames of a running command, as ${mode} (FUZZ_SEED=${seed})`, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode, build: 'sanitized' }).start();
    });
    after(() => warden.stop());

    /** Resolves when the connection has ended, by either side. */
    const play = (rnd: Seeded): Promise<void> =>
      new Promise((resolve, reject) => {
        const pty = rnd.chance(0.7) ? { pty: { cols: 80, rows: 24 } } : {};
        const plan = encodePlan(
          warden.plan(rnd.pick(COMMANDS), { ...pty, limits: { wallMs: 5_000 } }),
        );
        const frames = Array.from({ length: rnd.int(FRAMES_MAX) }, () => anyFrame(rnd));
        if (rnd.chance(0.5)) frames.push(frame(KILL));
        const bytes = Buffer.concat([frame(1, plan), ...frames]);
        const cuts = Array.from({ length: rnd.int(6) }, () => rnd.int(bytes.length)).sort(
          (a, b) => a - b,
        );
        const pieces = [...cuts, bytes.length].map((end, i) =>
          bytes.subarray(cuts[i - 1] ?? 0, end),
        );
        const socket = connect(warden.socket);
        const timer = setTimeout(() => {
          socket.destroy();
          reject(new Error('the warden did not answer'));
        }, RESPONSE_MS_MAX);
        socket.on('error', () => undefined);
        socket.on('close', () => {
          clearTimeout(timer);
          resolve();
        });
        socket.resume();
        const next = (): void => {
          const piece = pieces.shift();
          if (piece !== undefined && !socket.destroyed) {
            socket.write(piece);
            if (rnd.chance(0.3)) setTimeout(next, rnd.int(5));
            else setImmediate(next);
          } else if (rnd.chance(0.5)) socket.destroy();
          else socket.end();
        };
        socket.on('connect', next);
      });

    it('the warden survives them, and nothing is left', { timeout: 600_000 }, async () => {
      const { pid } = warden.process!;
      for (let round = 0; round < ROUNDS; round++) {
        await play(seeded(seed, mode, round)).catch((error: unknown) => {
          throw new Error(`round ${round}: ${(error as Error).message}\n${warden.stderr}`);
        });
        assert.equal(warden.process!.exitCode, null, `round ${round}: ${warden.stderr}`);
      }
      await warden.noBoxes();
      assert.deepEqual(await warden.leftovers(), NOTHING);
      assert.equal(warden.process!.pid, pid);
      assert.doesNotMatch(warden.stderr, /Sanitizer|runtime error/);
      const pty = { cols: 33, rows: 44 };
      const control = exited(await warden.run(['/bin/stty', 'size'], { pty }));
      assert.deepEqual([control.code, control.stdout], [0, '44 33\r\n']);
    });
  });
}
