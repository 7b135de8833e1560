// Tests which failed tries may be billed: decided by a fault's details, never by its message.
import assert from 'node:assert/strict';
import net, { type AddressInfo } from 'node:net';
import { afterEach, test } from 'node:test';
import { Fault } from '../../wire/errors.ts';
import { readVendorError, vendorFault } from './adapters/vendor-faults.ts';
import {
  closeServers,
  closing,
  LIMITS,
  provide,
  providerAt,
  sendJson,
  whole,
} from './testing/provider-calls.ts';
import { canBeBilled } from './upstream.ts';

afterEach(closeServers);

const faultOf = async (call: Promise<unknown>): Promise<Fault> => {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof Fault, String(error));
  return error;
};

/** Accepts TCP connections and sends nothing, so that no TLS handshake completes. */
async function listenSilently(): Promise<number> {
  const server = net.createServer((socket) => closing.push(() => socket.destroy()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

test('a try that got no connection is not billed', async () => {
  const silent = providerAt(`https://127.0.0.1:${await listenSilently()}`);
  const late = await faultOf(whole(silent, { limits: { ...LIMITS, connectTimeoutMs: 30 } }));
  assert.deepEqual(late.details, { provider: 'acme', reason: 'connect_timeout' });
  assert.equal(canBeBilled(late), false);
  const refused = await faultOf(whole(providerAt('http://127.0.0.1:1')));
  assert.equal(refused.details?.reason, 'ECONNREFUSED');
  assert.equal(canBeBilled(refused), false);
});

test('a try that the provider rejected is not billed, one without a response is', async () => {
  const rejecting = await provide((_, response) => void sendJson(response, {}, 500));
  assert.equal(canBeBilled(await faultOf(whole(rejecting))), false);
  const silent = await provide(() => {});
  const late = await faultOf(whole(silent, { limits: { ...LIMITS, firstByteTimeoutMs: 30 } }));
  assert.deepEqual(late.details, { provider: 'acme', reason: 'response_timeout' });
  assert.equal(canBeBilled(late), true);
});

test("a provider's message decides nothing", () => {
  for (const message of ['acme accepted no connection within 30 ms', 'connect_timeout'])
    for (const error of [{ message }, { message, type: message, code: message }]) {
      const reason = vendorFault(readVendorError({ error }), { provider: 'acme' });
      assert.equal(canBeBilled(reason), true, JSON.stringify(reason.toBody()));
    }
});
