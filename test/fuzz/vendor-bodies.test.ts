// Distorted bodies of each vendor's dialect, in both directions and in every pair: what is read is
// written as a request or response of the other, or refused with a fault of the table.
// FUZZ_SEED=… repeats a run.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { anthropic } from '../../src/daemons/modeld/adapters/anthropic.ts';
import type { Dialect } from '../../src/daemons/modeld/adapters/dialect.ts';
import { openai } from '../../src/daemons/modeld/adapters/openai.ts';
import type { JsonObject } from '../../src/daemons/modeld/adapters/reading.ts';
import { responses } from '../../src/daemons/modeld/adapters/responses.ts';
import { unchangedNames } from '../../src/daemons/modeld/adapters/tool-names.ts';
import { Fault } from '../../src/wire/errors.ts';
import { type Seeded, seeded } from '../support/seeded.ts';
import { distort } from './values.ts';
import { EXAMPLES, type Example } from './vendor-examples.ts';

const seed = process.env.FUZZ_SEED ?? String(Date.now());
const COUNT = process.env.FUZZ === 'long' ? 300_000 : 6_000;
const DIALECTS: readonly Dialect[] = [openai, responses, anthropic];
const NAMES = unchangedNames('m', 'p');
const BUGS: readonly string[] = ['internal', 'bad_output', 'bad_config'];

/** As it comes from a request: text, parsed. */
const parse = (value: unknown): JsonObject => JSON.parse(JSON.stringify(value)) as JsonObject;

function distorted<T>(rnd: Seeded, value: T): T {
  let changed: unknown = value;
  for (let i = rnd.pick([0, 1, 1, 1, 2, 4]); i > 0; i--) changed = distort(rnd, changed);
  return changed as T;
}

/** True if it worked. A fault is a refusal; anything else is a bug. */
function works(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (!(error instanceof Fault) || BUGS.includes(error.code)) throw error;
    assert.notEqual(error.message, '');
    return false;
  }
}

/** Runs each case, and reports how to repeat the first that fails. */
function repeat(what: string, once: (rnd: Seeded) => boolean): { good: number; refused: number } {
  let good = 0;
  for (let index = 0; index < COUNT; index++) {
    try {
      if (once(seeded(seed, what, index))) good++;
    } catch (cause) {
      throw new Error(`${what}, case ${index} of FUZZ_SEED=${seed}`, { cause });
    }
  }
  return { good, refused: COUNT - good };
}

describe(`bodies of vendors (FUZZ_SEED=${seed})`, () => {
  for (const from of DIALECTS) {
    const { request, response, stream }: Example = EXAMPLES[from.name];
    for (const to of DIALECTS) {
      const pair = `${from.name} to ${to.name}`;

      it(`${pair}: a request is written, or refused`, { timeout: 600_000 }, () => {
        const write = (body: JsonObject): void => {
          from.assertSelfContained?.(body);
          const { tokens = 1, choices } = from.readOutputLimit(body);
          assert.ok(choices >= 1);
          from.outputLimit(body, tokens, {});
          const asked = from.readRequest(body);
          const options = { provider: 'p', model: 'm', maxOutputTokens: 100, stream: true };
          const written = to.writeRequest(asked, options);
          assert.equal(parse(written.body).model, 'm');
        };
        const seen = repeat(pair, (rnd) => {
          const body = parse({ whole: distorted(rnd, request) }).whole;
          // The schema of the route asks for an object with the name of a model.
          const isObject = typeof body === 'object' && body !== null && !Array.isArray(body);
          return isObject && works(() => write({ ...body, model: 'm' }));
        });
        assert.ok(seen.good > COUNT / 20 && seen.refused > COUNT / 20, JSON.stringify(seen));
      });

      it(`${pair}: a response is written, or refused`, { timeout: 600_000 }, () => {
        const meta = { id: 'r', model: 'm', createdMs: 1 };
        const seen = repeat(`${pair} back`, (rnd) => {
          const body = parse({ whole: distorted(rnd, response) }).whole;
          return works(() => {
            JSON.stringify(to.writeResponse(from.readResponse(body, NAMES), meta));
          });
        });
        assert.ok(seen.good > COUNT / 20, JSON.stringify(seen));
      });

      it(`${pair}: a stream is written, or ends with a fault`, { timeout: 600_000 }, () => {
        const meta = { id: 'r', model: 'm', createdMs: 1, streamUsage: true };
        const seen = repeat(`${pair} stream`, (rnd) =>
          works(() => {
            const reader = from.readStream(NAMES);
            const writer = to.writeStream(meta);
            for (const event of stream) {
              if (rnd.chance(0.05)) continue;
              const changed = rnd.chance(0.2) ? distorted(rnd, event) : event;
              const data = rnd.chance(0.01) ? '{"a":' : (JSON.stringify(changed) ?? 'null');
              const block = { event: String(event.type ?? ''), data, raw: Buffer.from(data) };
              for (const one of reader.push(block))
                assert.equal(typeof writer.write(one), 'string');
            }
            writer.write({ type: 'done', response: reader.response() });
          }),
        );
        assert.ok(seen.good > COUNT / 20, JSON.stringify(seen));
      });
    }
  }
});
