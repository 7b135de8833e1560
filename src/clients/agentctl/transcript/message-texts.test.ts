// Messages of every dialect read alike.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listNewMessages, readMessageParts, readResponseParts } from './message-texts.ts';

const text = { kind: 'text', text: 'I look first.' };
const call = { kind: 'call', tool: 'bash', arguments: { command: 'ls' } };
const result = { kind: 'result', text: 'README.md' };

test('responses of every dialect', () => {
  const neutral = [
    { type: 'text', text: 'I look first.' },
    { type: 'tool_call', id: 'c', name: 'bash', arguments: { command: 'ls' } },
  ];
  assert.deepEqual(readResponseParts({ role: 'assistant', parts: neutral }), [text, call]);
  const content = [
    { type: 'thinking', thinking: 'Hm.', signature: 's' },
    { type: 'text', text: 'I look first.' },
    { type: 'tool_use', id: 'c', name: 'bash', input: { command: 'ls' } },
  ];
  const thinking = { kind: 'thinking', text: 'Hm.' };
  assert.deepEqual(readResponseParts({ content }), [thinking, text, call]);
  const tool_calls = [
    { id: 'c', type: 'function', function: { name: 'bash', arguments: '{"command":"ls"}' } },
  ];
  const message = { role: 'assistant', content: 'I look first.', tool_calls };
  assert.deepEqual(readResponseParts({ choices: [{ message }] }), [text, call]);
  const output = [
    { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] },
    { type: 'message', content: [{ type: 'output_text', text: 'I look first.' }] },
    { type: 'function_call', name: 'bash', arguments: '{"command":"ls"}' },
  ];
  assert.deepEqual(readResponseParts({ output }).slice(1), [text, call]);
});

test('tool results of every dialect', () => {
  const ofTool = {
    type: 'tool_result',
    tool_use_id: 'c',
    content: [{ type: 'text', text: 'README.md' }],
  };
  assert.deepEqual(readMessageParts({ role: 'user', content: [ofTool] }), [result]);
  assert.deepEqual(readMessageParts({ role: 'tool', content: 'README.md' }), [result]);
  assert.deepEqual(readMessageParts({ type: 'function_call_output', output: 'README.md' }), [
    result,
  ]);
  const neutral = { type: 'tool_result', tool_call_id: 'c', content: 'README.md' };
  assert.deepEqual(readMessageParts({ role: 'user', parts: [neutral] }), [result]);
});

test('only what came after the last response is new, without instructions', () => {
  const last = { role: 'user', content: 'now this' };
  const before = [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: 'y' },
  ];
  assert.deepEqual(listNewMessages([...before, { role: 'system', content: 's' }, last]), [last]);
  const output = { type: 'function_call_output', output: 'o' };
  assert.deepEqual(
    listNewMessages([{ role: 'user', content: 'x' }, { type: 'function_call' }, output]),
    [output],
  );
});

test('whatever stands there, nothing is thrown', () => {
  for (const odd of [
    null,
    5,
    '[forgotten]',
    {},
    { choices: [null] },
    { content: 7 },
    { output: [[]] },
  ]) {
    readResponseParts(odd);
    readMessageParts(odd);
  }
  assert.deepEqual(readResponseParts('[forgotten]'), [{ kind: 'text', text: '[forgotten]' }]);
  const broken = { type: 'function_call', name: 'bash', arguments: '{"comm' };
  assert.deepEqual(readMessageParts(broken), [{ kind: 'call', tool: 'bash', arguments: '{"comm' }]);
});
