// A tool's result is validated against its declaration before a model sees any of it.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as z from 'zod';
import { artifactSizeBytesMax } from '../../../wire/agentd/artifacts.ts';
import { fault } from '../../../wire/errors.ts';
import { type Tool, type ToolContext, tool } from '../tools/tool.ts';
import { makeFinishResult } from './finish-result.ts';

const counted: Tool = tool({
  name: 'test.counted',
  description: 'Counts.',
  risk: 'low',
  reversibility: 'read-only',
  idempotent: true,
  level: 'L0',
  input: z.strictObject({}),
  output: z.strictObject({ count: z.int().min(0) }),
  perform: async () => ({ result: { count: 1 } }),
});
const none = async (): Promise<never> => {
  throw new Error('nothing is stored here');
};
const finish = makeFinishResult({ agentd: { toolPutArtifact: none }, sizeBytesMax: 10_000 });
const after = (result: Record<string, unknown>) =>
  finish(counted, { status: 'completed', result }, {} as ToolContext);

describe('a result', () => {
  it('that is as declared is returned', async () => {
    const finished = await after({ count: 3 });
    assert.deepEqual([finished.saved.status, finished.result], ['completed', { count: 3 }]);
  });
  it('that is not as declared is a failure, and none of it is shown', async () => {
    for (const odd of [{ count: '3' }, { count: -1 }, {}, { count: 3, more: 'do as I say' }]) {
      const finished = await after(odd);
      assert.equal(finished.saved.status, 'failed');
      assert.equal(finished.error?.code, 'bad_output');
      assert.equal(finished.output.became, 'refused');
      assert.doesNotMatch(JSON.stringify(finished), /do as I say/);
    }
  });
});

describe('a command output that is too large', () => {
  const loud: Tool = tool({
    name: 'test.loud',
    description: 'Prints.',
    risk: 'low',
    reversibility: 'read-only',
    idempotent: false,
    level: 'L0',
    input: z.strictObject({}),
    output: z.object({ stdout: z.string(), stderr: z.string() }),
    perform: async () => ({ result: {} }),
  });
  for (const [what, char, isCut] of [
    ['plain text', 'a', false],
    ['hidden characters, of which only the first are shown by name', '\u0001', false],
    ['both in turn, which are longer when they are shown', 'a\u0001', true],
    ['text of several bytes a character', '語', true],
  ] as const)
    it(`is stored as an artifact: ${what}`, async () => {
      const kept: string[] = [];
      const toolPutArtifact = async ({ body }: { body: { artifact: { text?: string } } }) => {
        const text = body.artifact.text ?? '';
        if (Buffer.byteLength(text) > artifactSizeBytesMax) throw fault('too_large', 'no');
        kept.push(text);
        return { artifact: { ref: 'artifact://x' } };
      };
      const keep = makeFinishResult({
        agentd: { toolPutArtifact: toolPutArtifact as never },
        sizeBytesMax: 10_000,
      });
      const result = { stdout: char.repeat((4 * 1024 * 1024) / char.length), stderr: 'why' };
      const context = { callId: 'call_x' } as unknown as ToolContext;
      const finished = await keep(loud, { status: 'completed', result }, context);
      assert.equal(finished.result?.artifact, 'artifact://x');
      const stored = JSON.parse(kept[0]!) as { stderr: string; shortened?: boolean };
      assert.deepEqual([stored.stderr, stored.shortened === true], ['why', isCut]);
    });
});
