// network.request: which names can be requested, what the approver is shown, and that nothing is
// opened without approval.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Fault } from '../../../wire/errors.ts';
import type { ApprovalId } from '../../../wire/primitives.ts';
import { type HostOrder, networkTools } from './network.ts';
import type { ToolContext } from './tool.ts';

const approvalId = `approval_${'0'.repeat(26)}` as ApprovalId;
const context = { approvalId } as ToolContext;

function toolWith({ isOpen = true, onlyReads = false } = {}) {
  const orders: HostOrder[] = [];
  const [tool] = networkTools(async (_, order) => {
    orders.push(order);
    return { isOpen, onlyReads };
  });
  return { tool: tool!, orders };
}

const read = (host: string, more: object = {}) =>
  toolWith().tool.input.safeParse({ host, reason: 'to read', ...more });

describe('network.request', () => {
  it('accepts plain names in one spelling, and none that lead inside', () => {
    for (const [written, host] of [
      ['Docs.Example.COM.', 'docs.example.com'],
      ['bücher.example.org', 'xn--bcher-kva.example.org'],
      ['a_b.example.org', 'a_b.example.org'],
    ] as const)
      assert.equal((read(written).data as { host: string } | undefined)?.host, host, written);
    for (const written of [
      '127.0.0.1',
      '8.8.8.8',
      '[::1]',
      '2606:4700::1111',
      '0x7f.1',
      '0177.0.0.1',
      '2130706433',
      'localhost',
      'a.localhost',
      'printer',
      'nas.local',
      'db.internal',
      'x.lan',
      'x.home.arpa',
      '*.example.com',
      'https://example.com',
      'example.com/a',
      'a@example.com',
      'example.com:80',
      '',
      '..',
      'a..b',
      'ex ample.com',
      '-a.example.org',
    ])
      assert.equal(read(written).success, false, written);
    assert.equal((read('a.org').data as { port: number }).port, 443);
    for (const port of [0, 65_536, 1.5, '443'])
      assert.equal(read('a.org', { port }).success, false, String(port));
    assert.equal(toolWith().tool.input.safeParse({ host: 'a.org' }).success, false, 'no reason');
  });

  it('needs approval every time, and shows the real name, the port and the reason', async () => {
    const { tool, orders } = toolWith();
    assert.equal(tool.approval, 'required');
    assert.equal(tool.view.capabilities[0], 'network.request');
    const input = tool.input.parse({ host: 'раураl.com', reason: 'the docs' });
    const shown = await tool.preview!(input, context);
    assert.match(String(shown), /^let this run reach xn--[a-z0-9-]+\.com:443\nwhy: the docs\n$/);
    await assert.rejects(
      tool.perform(input, { ...context, approvalId: undefined } as never),
      (error) => error instanceof Fault && error.code === 'denied',
    );
    assert.deepEqual(orders, []);
  });

  it('asks policy as if it were granted, and says what may be sent there', async () => {
    const { tool, orders } = toolWith({ onlyReads: true });
    const input = tool.input.parse({ host: 'A.org', port: 8443, reason: 'x' });
    assert.deepEqual(tool.touches!(input), [
      { action: 'net.connect', host: 'a.org', port: 8443, granted: true },
    ]);
    const effect = await tool.perform(input, context);
    assert.deepEqual(effect, { result: { host: 'a.org', port: 8443, only_reads: true } });
    assert.deepEqual(orders, [{ host: 'a.org', port: 8443, approvalId }]);
  });

  it('says so when a rule still denies it', async () => {
    const { tool } = toolWith({ isOpen: false });
    const input = tool.input.parse({ host: 'a.org', reason: 'x' });
    await assert.rejects(tool.perform(input, context), /a rule of this site forbids a\.org/);
  });
});
