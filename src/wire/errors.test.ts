// Faults read from a body: known codes stay, renamed ones are translated, others become internal.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FAULTS, type FaultCode, faultFromBody } from './errors.ts';

const readCode = (code: string): FaultCode =>
  faultFromBody({ error: { code: code as FaultCode, message: 'm' } }).code;

test('every code of the table is read as itself', () => {
  for (const code of Object.keys(FAULTS)) assert.equal(readCode(code), code);
});

test('the former code not_reachable is read as runtime_down', () => {
  assert.equal(readCode('not_reachable'), 'runtime_down');
});

test('a code that is not in the table is read as internal', () => {
  assert.equal(readCode('no_such_code'), 'internal');
});
