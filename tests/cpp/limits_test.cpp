// Limits of memory: what cgroups of both versions say, below folders that are made here.
#include "core/limits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace pyflame {
namespace {

namespace fs = std::filesystem;

class Groups : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "pyflame-groups-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  CgroupMemory of(const std::string& groups) {
    write("groups", groups);
    return cgroup_memory((root_ / "groups").string(), root_.string());
  }
  fs::path root_;
};

TEST_F(Groups, None) {
  EXPECT_EQ(of("").limit, 0u);
  EXPECT_EQ(of("0::/\n").limit, 0u);
  write("a/memory.max", "max\n");
  EXPECT_EQ(of("0::/a\n").limit, 0u);
}

TEST_F(Groups, TheTightestOfVersionTwo) {
  write("a/memory.max", "1000000\n");
  write("a/memory.current", "950000\n");
  write("a/memory.stat", "anon 5\ninactive_file 20000\nactive_file 30000\n");
  write("a/b/memory.max", "800000\n");
  write("a/b/memory.current", "100000\n");
  const CgroupMemory m = of("0::/a/b\n");
  EXPECT_EQ(m.limit, 1000000u);  // of the outer group less is left
  EXPECT_EQ(m.used, 900000u);    // without what files have, which can be dropped
  EXPECT_EQ(m.left(), 100000u);
}

TEST_F(Groups, VersionOneInAContainer) {
  // The path is one of the machine's, and leads nowhere below the root that is seen.
  write("memory/memory.limit_in_bytes", "500000\n");
  write("memory/memory.usage_in_bytes", "600000\n");
  write("memory/memory.stat", "inactive_file 7\ntotal_inactive_file 50000\n");
  const CgroupMemory m = of("5:cpu:/x\n4:memory,hugetlb:/docker/abc\n0::/\n");
  EXPECT_EQ(m.limit, 500000u);
  EXPECT_EQ(m.used, 550000u);
  EXPECT_EQ(m.left(), 0u);
}

TEST_F(Groups, VersionOneWithoutALimit) {
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(of("4:memory:/\n").limit, 0u);
}

}  // namespace
}  // namespace pyflame
