#include "data/get.hpp"

namespace tessera {

const std::vector<OfficialSet>& official_sets() {
  static const std::vector<OfficialSet> kSets{
      {"mnist",
       "handwritten digits by LeCun, Cortes and Burges; the mirror that PyTorch uses",
       {
           {"https://ossci-datasets.s3.amazonaws.com/mnist/t10k-images-idx3-ubyte.gz"},
           {"https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz"},
           {"https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz"},
           {"https://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz"},
       },
       {
           {"t10k-images-idx3-ubyte",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
           {"t10k-labels-idx1-ubyte",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
           {"train-images-idx3-ubyte",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
           {"train-labels-idx1-ubyte",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
       }},
      {"fmnist",
       "Fashion-MNIST, https://github.com/zalandoresearch/fashion-mnist (MIT licence); Debian has "
       "it "
       "as the package dataset-fashion-mnist",
       {
           {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-images-idx3-ubyte.gz"},
           {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-labels-idx1-ubyte.gz"},
           {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
            "train-images-idx3-ubyte.gz"},
           {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
            "train-labels-idx1-ubyte.gz"},
       },
       {
           {"t10k-images-idx3-ubyte",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
           {"t10k-labels-idx1-ubyte",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"},
           {"train-images-idx3-ubyte",
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
           {"train-labels-idx1-ubyte",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
       }},
      {"cifar10",
       "https://www.cs.toronto.edu/~kriz/cifar.html",
       {{"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
         "c32a1d4ab5d03f1284b67883e8d87530", 170052171}},
       {
           {"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            true},
           {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            true},
           {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            true},
           {"data_batch_4.bin", "", true},
           {"data_batch_5.bin", "", true},
           {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
       }},
      {"cifar100",
       "https://www.cs.toronto.edu/~kriz/cifar.html",
       {{"https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
         "03b5dce01913d631647c71ecec9e9cb8", 168513733}},
       {{"train.bin", ""}, {"test.bin", ""}}},
      {"mnistm",
       "its authors' page, http://yaroslav.ganin.net, has no file that a program can fetch; set "
       "built "
       "= true to have it built from mnist and cifar10",
       {},
       {
           {"mnist_m_test.bin", "c63ce8b813305d21b530018613c043fe498ec071cf5e37fc43f63fe090d51234"},
       }},
      {"air-bj",
       "https://archive.ics.uci.edu/dataset/501 (CC BY 4.0)",
       {{"https://archive.ics.uci.edu/static/public/501/beijing+multi+site+air+quality+data.zip"}},
       {
           {"PRSA_Data_Aotizhongxin_20130301-20170228.csv",
            "a94fbcfc71708b6ffdc033360163d91efb7f675e496f6b5860929aa96b96351b"},
           {"PRSA_Data_Changping_20130301-20170228.csv",
            "a2e21402a6d95fb7043f87959e6e3dcbecb957aac356a6f8028a85b047c772e7"},
           {"PRSA_Data_Dingling_20130301-20170228.csv",
            "3d8dff81f18a80d9f455876a785642bffe1e9b9924ec1e6b7ce8cca790432eeb"},
           {"PRSA_Data_Dongsi_20130301-20170228.csv",
            "9c0020214425e5ee2a64d42f97a1f632e1d8f6b53ad50edd85a686cc7999f27e"},
           {"PRSA_Data_Guanyuan_20130301-20170228.csv",
            "59390fee3b032597b387491f5230e7edb90a8558e30217ebd6d9befbe669fbf9"},
           {"PRSA_Data_Gucheng_20130301-20170228.csv",
            "10ae48801ea55869fee56a48b885fb1127859c130551888d71673f34216ba951"},
           {"PRSA_Data_Huairou_20130301-20170228.csv",
            "812dcbe848b3ba2c2d25731064797bff803c46eb0c602156a1fa044df136dc26"},
           {"PRSA_Data_Nongzhanguan_20130301-20170228.csv",
            "572cf87b65ef543cd55d3a711b28474def224a46b0ec3fc8add8aaf13b67a487"},
           {"PRSA_Data_Shunyi_20130301-20170228.csv",
            "520b59e4ead3b0cfe7f1ed673e30275de8441e999db6f413d5172d2277b8c15a"},
           {"PRSA_Data_Tiantan_20130301-20170228.csv",
            "0743e34799cf1ee36195b73321b91baa5625276532e7263c588f68cdef3b4daa"},
           {"PRSA_Data_Wanliu_20130301-20170228.csv",
            "0b1a6d754a07f0def2f55434ddfa3870dcd0063b7f766a6f66b6c11bb05a377a"},
           {"PRSA_Data_Wanshouxigong_20130301-20170228.csv",
            "ab1d6a356d6997a45f6d657ad47de1e05a4a08d4a7015b38a329a90665ab74d0"},
       }},
      {"air-5c",
       "https://archive.ics.uci.edu/dataset/394 (CC BY 4.0) has it as a RAR archive: fetch and "
       "unpack "
       "it with another program, then name the folder",
       {},
       {
           {"BeijingPM20100101_20151231.csv",
            "12bc0dc800e02a2c11b79c29a246c3a55d8b9516145cd870b3c33b48521f2523"},
           {"ChengduPM20100101_20151231.csv",
            "bcba1c9e513a2f0fa89101822a5a565a7640a4a221ec62c089173237f5d72a9e"},
           {"GuangzhouPM20100101_20151231.csv",
            "72ab8389d9967ec32a6d2206cac9275552f81d849200714081359cb3442dfc72"},
           {"ShanghaiPM20100101_20151231.csv",
            "49258afcca08ca1a5c76379c31a439cc0179f53371842f14fd6ee6127ebffc14"},
           {"ShenyangPM20100101_20151231.csv",
            "3d5a694492b22e4c2405230c1e5dff8d55726a468396b02990302f8312e42046"},
       }},
  };
  return kSets;
}

}  // namespace tessera
