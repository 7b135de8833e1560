// A released migration must never change: a change would reach new databases only, and old ones
// would open with other tables than the code expects.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sha256Hex } from '../../src/platform/json.ts';
import { ROOT } from '../support/runtime.ts';

const DAEMONS = join(ROOT, 'src', 'daemons');

/** The hashes of each store's migrations. A new one gets a line here; none is changed. */
const MADE: Record<string, string[]> = {
  'agentd/store/schema.ts': [
    'ebd7fbb697fc994792ba3d177cc089e80559b86ac2ad5a4a571770a32decf867',
    '79c3ce20e913ed4dcc8961f6e84fbeb07cc3f3ab5155116ea65f6884c774690f',
    '5fd6fd9f7ccd291a852d6b3ec2a1a353a30c7d30b801d61c685ffffc52d2c563',
    '695b1826f2aa9ac15497df679c5b138e7a79d3952c80763c6850fd1e760dee7e',
    '5c36b82d5b2d39d08436ed12fe7b1db087198224c685a28222737c4956d4bc97',
    '8b50067e281a5d7615f865a84b187f009854e964cc2a97be49252a36112c4515',
    '25da3b56382a88a8862bc32882bf114f65b91b071abd8fe2a01493a11c28961c',
    '049bac194b481b9ad7a9160b8de9d946b87e0aa5feff6e01a15a4697d56108c8',
    'cd60da397f9b9a18d565cb0302741a8426c6ea5727ad554a3b8a2665a672d63d',
    '29c6c34e8dc79b448b269e8dad61ecde8e18837ee0797a3445e2215882c4e40d',
    'ee9c2eafa482bb26ce70c9661930e7770b21cdc29e87404df323d99b45042284',
    'ad08ee9917d55afc5b12a095dc8e13286fccc2531d539cb1b8179be400bd60ea',
    'be3d3f57bbed076122a5d7fffc42137d5e6b1106ee9e82cfbecd10fa0ef4474b',
    '42c7c238dfe14ab40ba2c4f0bfb78d9ea95165e0742cf46dab8c2b765d7d5cdb',
    '520652eba981f677cda8929810a295a8baf7a1fd7435dff7ef65c4cac31fee55',
    'ab0229462a568f30f47cf0bc167b6c3d8bfc8cc4701c66d7713e60e406cdd23a',
    '5587032480fce9815e3b12b376bbac7a87c3c5436388e6fce9a125025bf4f1f5',
    '70bd971fe0d28e6eabe1055df84d4393fe2edfe753d23c21884d2395efb5535c',
    '7a5c96e9ef00f00636d0d6f5335f514651f1048f33f355bcdda0f438d766415a',
    'b2385d8a20f8914996466ff05e35f8465ed900128e92ad5c9f6dabce4066ddee',
    '20b8f57ae25aecb75e4c4d576a6403464196c80f2ef9333c3dc610af29361000',
  ],
  'approvald/store/rows.ts': [
    '712875b6b5a54fcf74956db83336bbdcc24a63615e7c740f1e458b060d6908e0',
    'd99760ea1a1f77d2353cd4ea61290a89eee00fc6d4ddb832ae323b630f543ff1',
    '7a4778fc48833c5067747f9b6e970e6546de04bbec0b4093c583a4f01cc209c1',
    '089756d11d01d10fe7c92a3be035f9891f156b77df8c6da883930247964d421d',
    '48c65b301bb49843c2f3bbc4cc47966bfa06a7a7226bd0e1081033c672cfc559',
    '3d48b7be54b06366575ff3f97345a88e0c73ac3e8474cf571ba4ee0096b7216a',
  ],
  'egressd/store.ts': [
    '12cb48fa6ab6237cae60148dd9dc06af6a5f6d08296dde0ffd6e0981a37cc1d5',
    'f0b7c2a74b58abec470cec2ef3b658e71ddef62daa0e8c6f93bf34602355a545',
    '05cf0f35db7c2c41613e51baccbdbb4d344549a189da395d63ecfe5d555ef463',
    '0e7467bb774f7d60890e6cdba1d96d9b5ff3f1a0de07bedf02333c85e2710a7a',
  ],
  'maild/store/schema.ts': [
    '9ee10d84cc2e1fa17e6578b1b130e60b70266945bbecb8f87cc0e7a0d6bdf67a',
    '107f928cb33acaf576d81bbd4427a5d041e0ab8f64e70a25264d86458feb607a',
    '992f36ba17589b97fd546ce7be194aeb980f71e20066ccc9af146de9b6bb5334',
  ],
  'memoryd/store/schema.ts': [
    '19f3711e84e7cc93bf4c585ea6d563d7ff43cf0bccb29f56e98332043dd98501',
    '0a7f9e7b623753d5870b243fa01afcced6ec85a3c88f0f2bf5a83130ab1f9521',
    '40c7740a81fa9f31fc06f21dc1475befe16b9205b79521ce6899855b44bf6b4f',
    '15257f4c5423316107a5925c80a48b7d9e2eea38f1baf36b5773c685d0ad25bc',
    'dabde3aee4a210dc07af732a8beaca6af8c9ad8fa7ae73b0aad2dc94acfd45db',
    '70a8966ae44fa8ddd8e0428b52a238239d47897beadc87c6a0cb4c1479b70deb',
    '13f8ed097929b6507511a414900be23002b7fc1e1ebcb451402aa9c22439cc03',
    '2ee398bed9986875ae17386b5bc8d8c5edce6cf41fc423ad17bd3d4165240c21',
    '20d707f5cf0b07e2ec91cfe939f16bc6782f5e29c891263f9d282ea873de19e8',
  ],
  'modeld/store/tables.ts': [
    '2d6fe0d5aadb132cc726d292c9e252a343e67581ec352d44fc471d00d79f0064',
    '80c9db3d69593f88ed71a60abce52a41c5552d7be361cda754434d928fc225af',
    'b87c18378827bbc26be66c94ae2677782909687070af7da66d0c153a1516965f',
    '2100dc2d08f55ed6975807fe67f373e5f0ffbcad7e14124af8e5b0864a59c864',
    'fce6472e3d21d9cf7340e743c34fe8dbd9ed59749853eab586da80d8a28efb70',
    '3ad24cf5ca3e7c750a2d3ccc30687354b76a251ff4dbf83ddf9ac5583eb8ae3a',
    '3b7bb02c5ded8bed7f1bc130a96e50ec3027ccb6e5dbbcd978535c5eddc1eefd',
    '44e33eeb57fa65e42e0270ff33af6c81a7f3369c0759dfc379905c93ef120b52',
    '6e08cf9bbf34f736e99438b5c20d7217edf7bf2695c1a7d504b9ffe8c30c4c7d',
    '9b18ff8a2d930d21177eb8162b9e8f489c8fa1c476bed2719bd154ce6e35b899',
    '84a7aa6376e6e6462a406376a4cb5bc877ca9325503d91fae4f5448e9d35ac65',
    'e5ddee0f8962550342cd254294be67272864302de7d119d964ced42f30376806',
    'be70c490bda949ef4f8b2d2b121566e8bcb632f576f26b72245dba59dacb7a49',
    'd1422f00d536229b0ec9c8afda3a38b9db598a0787e4da2ec2e7cffe66e5ef63',
    '8b97121f2a40d05223b5038fdf2676d4e80d160db9bd2ce7ca2c100a924e86df',
  ],
  'sandboxd/store.ts': [
    '4271760287eaa6a6e0aa64a14fcf1ab01bc0d6b02648da32b6b2014ee6db1c41',
    '93827f57fc7504ac2897542378aab015c1055a7d4270bab81fbceab0a8691c4b',
    '9122abc0a23c5e7a1e85f2aad11641d3231c2420ce3dd2ece188f4b1e533ef76',
    'a8a1fbc85dc707553e9a14e3c66de2a936cfcd1552486563ea9b3236a7fae3bd',
    '6474cff3d86f2b9253066d7afa883cd9fbbc47c6552a7230f57975fc5603c1bd',
    '1ec9e3d6966c4e69b75ae4b45fb9c435b8e947fd57e5c9be75c165fed9e4b291',
    'd4806de795078dbf543c92c69204eb00f057275b616aea658a5bce2a3c635d05',
    '28d98aeeaba057fb77f1841cd94d0a38afa80563d3cfc08a8b3804cef63f1ac4',
    '10e45215accd103d9df1f3b272bef9afae46c9f72b06b95ed3b3b19bafd45978',
    '68a002e66b595b5448bbdaff97130821a6e1c0fe2b20e41eb823d67c5a016226',
    '0cefe03363191a0acd09e3276b2e84fbf6811f3bbdd2047126f6db4d742b792e',
    'c362459ffc872a909f562b53a958ad6aa9694f9ee451e50480191092254daeab',
  ],
  'toold/store/schema.ts': [
    'a15053c0a84a8825b515f3f56a3e548d74183a7140a7717f05d19a9f417b7602',
    '7ad74ebff883393f3bcffa4bee5e68e8696715d95936d43d9b8a31bae01a1e52',
    '877f586940d2efb7e10c16f8ac24b321471813088d371db1d4913f9601c7ce7e',
    'f23c47bf89e8b1449d776843d8e13dea64d4cfd0124fe736f3bd297ca2002130',
    'e9e90d72f9b3bfbdd9f1fb79b3fe5b8a48d90fb733f765016f142f8e1ccd96a1',
    '286c65f52f0b5b9b28f9b084e8c55506c04fa33ee0be7cb86773db9ebfff38eb',
    'af26c4cd8f72a664f0e125d84dccce72eeaa59b5e614ac70434402ca3238318b',
    '89dbe4789c8e54dcf7e76bd5b12724cc7c39d834a9e32257790d147186ad0108',
  ],
};

/** The audit log's index: one with another schema is rebuilt from the log. */
const DERIVED = 'auditd-ai/store/tables.ts';

test('every store is listed', () => {
  const files = readdirSync(DAEMONS, { recursive: true, encoding: 'utf8' });
  const stores = files.filter(
    (file) =>
      file.endsWith('.ts') &&
      /^export const MIGRATIONS\b/m.test(readFileSync(join(DAEMONS, file), 'utf8')),
  );
  assert.deepEqual(stores.sort(), [...Object.keys(MADE), DERIVED].sort());
});

for (const [file, made] of Object.entries(MADE)) {
  test(`${file}: released migrations are unchanged, and new ones are listed`, async () => {
    const { MIGRATIONS } = (await import(join(DAEMONS, file))) as { MIGRATIONS: readonly string[] };
    for (const [i, hash] of made.entries())
      assert.equal(
        sha256Hex(MIGRATIONS[i] ?? ''),
        hash,
        `migration ${i + 1} was changed: restore it, and add another after the last`,
      );
    const added = MIGRATIONS.slice(made.length).map(sha256Hex);
    assert.deepEqual(added, [], `a new migration: add its hash to the list of ${file}`);
  });
}
