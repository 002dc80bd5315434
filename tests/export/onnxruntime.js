// usage: node onnxruntime.js DIR: the logits of every ONNX file of DIR/cases.json by onnxruntime, as
// files of float32 beside our own. Exit code 77 where there is no onnxruntime-node.
'use strict';
const fs = require('fs');
const path = require('path');

let runtime;
try {
  runtime = require('onnxruntime-node');
} catch (problem) {
  console.log(`skipped: ${problem.message.split('\n')[0]} (npm install onnxruntime-node, NODE_PATH)`);
  process.exit(77);
}

async function main(folder) {
  const cases = JSON.parse(fs.readFileSync(path.join(folder, 'cases.json')));
  for (const each of cases) {
    const session = await runtime.InferenceSession.create(path.join(folder, `${each.name}.onnx`));
    for (const batch of each.batches) {
      const bytes = fs.readFileSync(path.join(folder, batch.x));
      const values = new Float32Array(new Uint8Array(bytes).buffer);
      const answer = await session.run({x: new runtime.Tensor('float32', values, batch.shape)});
      const {data, dims} = answer.logits;
      if (dims[0] !== batch.shape[0] || dims[1] !== each.classes) {
        throw new Error(`${each.name}: logits have shape [${dims}]`);
      }
      const out = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
      fs.writeFileSync(path.join(folder, `${batch.y}.onnxruntime`), out);
    }
  }
}

main(process.argv[2]).catch((problem) => {
  console.error(problem.message);
  process.exit(1);
});
